// What the caption of a table says where weights of the models behind it are quantized: such a model's scores are its
// own baseline's, not the original model's.
#pragma once

#include <set>
#include <string>

#include "store/database.h"

namespace kvc {

// "weights quantized: Q4_1 (smollm2-135m), 8 bits (demo)"; "" where none are. Of these cells: the model file's own
// format (model_json's weights_format), and what the experiment asked for.
std::string weights_note(Database& db, const std::set<std::string>& cell_keys);

// Of all cells of one kind of an experiment ("all": of every experiment).
std::string weights_note(Database& db, const std::string& kind, const std::string& experiment);

// "t" and a note -> "t; note"; either alone where the other is empty.
std::string with_note(const std::string& title, const std::string& note);

}  // namespace kvc

// How the records of each public implementation are reproduced, one function a family.
#pragma once

#include "oracle_set.h"

namespace kvc::census {

// group_records.cpp
void reproduce_token_groups(const OracleSet& set, const Record& record);
void reproduce_channel_groups(const OracleSet& set, const Record& record);
void reproduce_backbone(const OracleSet& set, const Record& record);
void reproduce_kivi_store(const OracleSet& set, const Record& record);
void reproduce_flexgen(const OracleSet& set, const Record& record);
void reproduce_rtn(const OracleSet& set, const Record& record);
void reproduce_quanto(const OracleSet& set, const Record& record);
void reproduce_hqq(const OracleSet& set, const Record& record);

// gear_records.cpp
void reproduce_gear_l(const OracleSet& set, const Record& record);
void reproduce_gear(const OracleSet& set, const Record& record);
void reproduce_power_iteration(const OracleSet& set, const Record& record);
at::Tensor gear_output(const OracleSet& set, const Record& record);  // as the public code rounds it

// sketch_records.cpp
void reproduce_decoquant(const OracleSet& set, const Record& record);
void reproduce_qjl(const OracleSet& set, const Record& record);
void reproduce_qjl_part(const OracleSet& set, const Record& record, const std::string& part);
void reproduce_kvquant_integers(const OracleSet& set, const Record& record);
void reproduce_kvquant_levels(const OracleSet& set, const Record& record);

// plugin_records.cpp
void reproduce_plugin(const OracleSet& set, const Record& record);

// whole_tensors.cpp: a tensor of full.safetensors, by its name.
void reproduce_whole(const OracleSet& set, const std::string& name);

struct StoreParts {
  at::Tensor codes, scale, zero, y;  // packed as the public code packs them; y [H, n, d]
};
StoreParts kivi_store(const at::Tensor& x, bool of_keys, int64_t bits, int64_t group, bool half);
at::Tensor channel_groups(const at::Tensor& x, int64_t bits, int64_t group);  // [H, n, d], runs of tokens

}  // namespace kvc::census

#!/usr/bin/env bash
# make_pages.sh DATABASE: the leaderboard's tables beside this file, and its picture, from the database alone. KVC names
# the program, ./kvc without.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
root=$(cd "$here/../.." && pwd)
kvc=${KVC:-$root/kvc}
database=$1
of=("$database" --baseline "full precision" --experiment leaderboard)

"$kvc" table by_size --db "$database" --experiment leaderboard >"$here/levels.md"
"$kvc" compare "${of[@]}" --task lambada/openai >"$here/compare.md"
"$kvc" compare "${of[@]}" --task piqa --task hellaswag --pooled >"$here/compare_choices.md"
"$kvc" compare "${of[@]}" --task 'ruler/*/2k' --task 'ruler/*/4k' --pooled >"$here/compare_ruler.md"
"$kvc" compare "${of[@]}" --task ruler/niah_single_1/2k >"$here/compare_needle.md"
"$kvc" power "${of[@]}" --task lambada/openai --difference 3 >"$here/power.md"
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
"$kvc" figure lines_kl --db "$database" --experiment leaderboard -o "$scratch/leaderboard_kl.svg"
cp "$scratch/leaderboard_kl.svg" "$root/docs/images/"
sha256sum "$database"

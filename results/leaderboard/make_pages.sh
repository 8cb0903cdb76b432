#!/usr/bin/env bash
# make_pages.sh DATABASE: the leaderboard's tables beside this file, and its picture, from the database alone. KVC names
# the program, ./kvc without.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
root=$(cd "$here/../.." && pwd)
kvc=${KVC:-$root/kvc}
database=$1
baseline="full precision"

"$kvc" table levels --db "$database" --experiment leaderboard >"$here/levels.md"
"$kvc" compare "$database" --baseline "$baseline" --experiment leaderboard --task lambada/openai >"$here/compare.md"
"$kvc" power "$database" --baseline "$baseline" --experiment leaderboard --difference 3 |
  grep -v -e '| all tasks' -e '| check/text' >"$here/power.md"  # texts have too few windows for a test
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
"$kvc" figure lines_kl --db "$database" --experiment leaderboard -o "$scratch/leaderboard_kl.svg"
cp "$scratch/leaderboard_kl.svg" "$root/docs/images/"
sha256sum "$database"

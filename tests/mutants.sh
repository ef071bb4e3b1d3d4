#!/usr/bin/env bash
# Plants bugs and weakens orderings, one at a time. Exits 0 only if the models catch each: all that core/mutants.sh lists and
# those that the simulation is known to see, and all weak orderings but those that tests/orderings.md argues for. An hour or so.
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
failed=0
core/mutants.sh || failed=1
tests/simulate-mutants.sh || failed=1
tests/orderings.py || failed=1
exit $failed

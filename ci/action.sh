#!/bin/sh
# The steps of action.yml, each an argument: install, up, run, down. They are given the action's inputs
# as variables, and GitHub's own. Everything is in $RUNNER_TEMP, which the runner empties.
set -eu

programs=$RUNNER_TEMP/koupsandbox-programs
bin=$programs/lib/koupsandbox
export PATH="$bin:$PATH" KOUPSANDBOX_HOME="$RUNNER_TEMP/koupsandbox"

case $1 in
install) # install.sh verifies the archive, including one from the cache
  KOUPSANDBOX_CACHE=$RUNNER_TEMP/koupsandbox-cache sh "$(dirname "$0")/../install.sh" --dir "$programs"
  koupsandbox version
  # For the steps of the job that follow.
  echo "$bin" >>"$GITHUB_PATH"
  echo "KOUPSANDBOX_HOME=$KOUPSANDBOX_HOME" >>"$GITHUB_ENV"
  ;;
up)
  koupsandbox up --bases "$BASES"
  echo "kubeconfig=$(koupsandbox kubeconfig --path)" >>"$GITHUB_OUTPUT"
  ;;
run)
  echo "report=$REPORT" >>"$GITHUB_OUTPUT"
  # One path a line; a path may have spaces.
  set -f
  IFS='
'
  # shellcheck disable=SC2086 # to be split
  set -- $SCENARIOS
  status=0
  koupsandbox scenario run --up --report-dir "$REPORT" -- "$@" || status=$?
  [ ! -f "$REPORT/summary.md" ] || cat "$REPORT/summary.md" >>"$GITHUB_STEP_SUMMARY"
  exit "$status"
  ;;
down) # the run has done so, unless it was cut off
  [ ! -x "$bin/koupsandbox" ] || koupsandbox down
  ;;
*)
  echo "action.sh: there is no step $1" >&2
  exit 2
  ;;
esac

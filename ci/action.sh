#!/bin/sh
# Runs one step of action.yml: install, up, run or down. The inputs of the action are environment variables. All files are
# in $RUNNER_TEMP, which the runner deletes.
set -eu

programs=$RUNNER_TEMP/koupsandbox-programs
bin=$programs/lib/koupsandbox
export PATH="$bin:$PATH" KOUPSANDBOX_HOME="$RUNNER_TEMP/koupsandbox"

case $1 in
install) # install.sh verifies the archive, including one from the cache
  KOUPSANDBOX_CACHE=$RUNNER_TEMP/koupsandbox-cache sh "$(dirname "$0")/../install.sh" --dir "$programs"
  koupsandbox version
  # For the following steps of the job.
  echo "$bin" >>"$GITHUB_PATH"
  echo "KOUPSANDBOX_HOME=$KOUPSANDBOX_HOME" >>"$GITHUB_ENV"
  ;;
up)
  koupsandbox up --bases "$BASES"
  echo "kubeconfig=$(koupsandbox kubeconfig --path)" >>"$GITHUB_OUTPUT"
  ;;
run)
  echo "report=$REPORT" >>"$GITHUB_OUTPUT"
  set -f
  # shellcheck disable=SC2086 # split at spaces
  [ -z "${LINT:-}" ] || koupsandbox scenario lint $LINT
  # One path per line. A path may contain spaces.
  IFS='
'
  # shellcheck disable=SC2086 # split at newlines
  set -- $SCENARIOS
  status=0
  koupsandbox scenario run --up --report-dir "$REPORT" -- "$@" || status=$?
  [ ! -f "$REPORT/summary.md" ] || cat "$REPORT/summary.md" >>"$GITHUB_STEP_SUMMARY"
  exit "$status"
  ;;
down) # after a run, this does something only if the run was interrupted
  [ ! -x "$bin/koupsandbox" ] || koupsandbox down
  ;;
*)
  echo "action.sh: unknown step $1" >&2
  exit 2
  ;;
esac

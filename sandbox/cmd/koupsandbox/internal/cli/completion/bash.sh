# Completion of koupsandbox for bash, which requests completions from koupsandbox itself.
_koupsandbox() {
  local word="${COMP_WORDS[COMP_CWORD]}" line=("${COMP_WORDS[@]:0:COMP_CWORD}")
  case "$word" in
  -*) line+=("$word") ;;
  esac
  mapfile -t COMPREPLY < <(compgen -W "$("${line[@]}" --generate-bash-completion 2>/dev/null)" -- "$word")
}
complete -o bashdefault -o default -F _koupsandbox koupsandbox

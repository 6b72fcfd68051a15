#compdef koupsandbox
# Completion of koupsandbox for zsh, which requests completions from koupsandbox itself.
_koupsandbox() {
  local -a answers
  local word="${words[CURRENT]}"
  local -a line=("${words[@]:0:$((CURRENT - 1))}")
  [[ "$word" == -* ]] && line+=("$word")
  answers=("${(@f)$(_CLI_ZSH_AUTOCOMPLETE_HACK=1 "${line[@]}" --generate-bash-completion 2>/dev/null)}")
  [[ -n "${answers[1]}" ]] && _describe 'koupsandbox' answers || _files
}
compdef _koupsandbox koupsandbox

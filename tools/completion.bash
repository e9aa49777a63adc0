# Completion of Longhaul's commands in bash: source tools/completion.bash

_longhaul() {
  local word=${COMP_WORDS[COMP_CWORD]} command=${COMP_WORDS[1]:-}
  local commands="run explain plan submit status events logs stop jobs nodes queues reserve usage what-if apply token controller agent kube slurm simulate profile calibrate checkpoint"
  COMPREPLY=()
  if ((COMP_CWORD == 1)); then
    mapfile -t COMPREPLY < <(compgen -W "$commands --help --version" -- "$word")
    return
  fi
  if [[ $word == -* ]]; then
    # What the command itself says it knows, so that this list never lags behind.
    local known
    known=$("${COMP_WORDS[0]}" "$command" --help 2>/dev/null | grep -oE -- "--[a-z][a-z-]+")
    mapfile -t COMPREPLY < <(compgen -W "$known" -- "$word")
    return
  fi
  case ${COMP_WORDS[COMP_CWORD - 1]} in
    --emit)
      mapfile -t COMPREPLY < <(compgen -W "megatron deepspeed torchtitan longhaul" -- "$word")
      return
      ;;
    --framework)
      if [[ $command == run ]]; then
        mapfile -t COMPREPLY < <(
          compgen -W "pytorch torchtitan megatron deepspeed lightning accelerate" -- "$word"
        )
        return
      fi
      mapfile -t COMPREPLY < <(compgen -W "any all megatron deepspeed torchtitan longhaul" -- "$word")
      return
      ;;
    --precision)
      mapfile -t COMPREPLY < <(compgen -W "fp32 fp16 bf16 fp8 mxfp8 nvfp4" -- "$word")
      return
      ;;
  esac
  case $command in
    plan)
      mapfile -t COMPREPLY < <(
        compgen -f -X '!*.@(yaml|yml|json)' -- "$word"
        compgen -d -S / -- "$word"
      )
      ;;
    explain)
      mapfile -t COMPREPLY < <(compgen -d -S / -- "$word")
      ;;
    run | submit)
      mapfile -t COMPREPLY < <(
        compgen -f -X '!*.y*ml' -- "$word"
        compgen -d -S / -- "$word"
      )
      ;;
  esac
}
complete -o filenames -F _longhaul longhaul ./longhaul

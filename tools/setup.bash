# What ./longhaul and ./test share: Debian packages, configuring, building. Sourced, not run.
# Everything is said on standard error, so that a program's --json on standard output stays clean.
#
# Requires `root`, the project's folder.
#   LONGHAUL_BUILD_JOBS=N        parallel compilers; else one a core and 2 GB of memory
#   LONGHAUL_SKIP_PACKAGES=1     installs nothing: the packages are there, whatever dpkg says
#   LONGHAUL_UNSUPPORTED=1       tries other machines than Debian 12 on x86-64
# Where ccache is installed it keeps what was compiled (cmake/CompilerCache.cmake);
# CMAKE_CXX_COMPILER_LAUNCHER= turns that off.

packages_file="$root/packages.txt"
installed_as=""  # of the stamp that says that nothing is missing

say() { printf 'longhaul: %s\n' "$*" >&2; }
die() {
  say "$@"
  exit 1
}

# One build at a time; whoever comes second waits. Descriptor 9 is given back by unlock_build.
lock_build() {
  mkdir -p "$root/build" 2>/dev/null || die "cannot create $root/build: no permission to write here"
  exec 9>"$root/build/.lock" || die "cannot write $root/build/.lock"
  flock -n 9 && return
  say "waiting for another build in $root/build"
  flock 9
}
unlock_build() { exec 9>&-; }

# The packages for the given occasions (build, test, ci), one a line.
packages_for() {
  local when package rest
  while read -r when package rest; do
    [[ $when == '#'* || -z $package ]] && continue
    [[ " $* " == *" $when "* ]] && printf '%s\n' "$package"
  done <"$packages_file"
  return 0
}

check_machine() {
  [[ ${LONGHAUL_UNSUPPORTED:-} == 1 ]] && return
  local hint="set LONGHAUL_UNSUPPORTED=1 to try all the same"
  local machine
  machine=$(uname -m)
  [[ $machine == x86_64 ]] || die "built and tested on x86_64 only, this machine is $machine; $hint"
  local ID="" VERSION_ID=""
  local release=${LONGHAUL_OS_RELEASE:-/etc/os-release}
  # shellcheck disable=SC1090
  [[ -r $release ]] && . "$release"
  [[ $ID == debian && $VERSION_ID == 12 ]] ||
    die "needs Debian 12's packages, this system is ${ID:-unknown} ${VERSION_ID:-}; $hint" \
      "(with the packages of packages.txt in place, add LONGHAUL_SKIP_PACKAGES=1)"
}

# Installs what is missing for the given occasions. Once nothing is, a stamp saves the question
# until packages.txt changes or a build fails.
ensure_packages() {
  installed_as="$root/build/.installed-${*// /-}"
  [[ ${LONGHAUL_SKIP_PACKAGES:-} == 1 ]] && return
  cmp -s "$packages_file" "$installed_as" && return
  check_machine
  local wanted missing=() status package
  local -A installed=()
  mapfile -t wanted < <(packages_for "$@")
  while IFS='|' read -r status package; do
    # The second letter is the state: "ii " and "hi " are installed, "rc " and "iU " are not.
    [[ ${status:1:1} == i ]] && installed[$package]=1
  done < <(dpkg-query -W -f '${db:Status-Abbrev}|${Package}\n' "${wanted[@]}" 2>/dev/null)
  for package in "${wanted[@]}"; do
    [[ -n ${installed[$package]:-} ]] || missing+=("$package")
  done
  [[ ${#missing[@]} -eq 0 ]] || install_packages "${missing[@]}"
  cp "$packages_file" "$installed_as"
}

install_packages() {
  local install=(apt-get install -y -q --no-install-recommends "$@")
  local as_root=()
  if [[ $(id -u) != 0 ]]; then
    # Without a terminal sudo cannot ask for a password.
    if command -v sudo >/dev/null && { [[ -t 0 ]] || sudo -n true 2>/dev/null; }; then
      as_root=(sudo)
    else
      die "these Debian packages are missing and need root to install. Run as root:
  apt-get update && apt-get install -y --no-install-recommends $*"
    fi
  fi
  local log="$root/build/packages.log"
  say "installing $# missing Debian packages (log: $log): $*"
  local run=("${as_root[@]}" env DEBIAN_FRONTEND=noninteractive)
  {
    "${run[@]}" apt-get update -q 9>&-
    "${run[@]}" "${install[@]}" 9>&-
  } >"$log" 2>&1 </dev/null || {
    tail -n 12 "$log" >&2
    die "apt-get could not install the packages (whole log: $log). Try it yourself:
  apt-get update && apt-get install -y --no-install-recommends $*"
  }
}

# One compiler a core, but no more than memory carries: a file with libtorch takes 1.2 GB.
build_jobs() {
  if [[ -n ${LONGHAUL_BUILD_JOBS:-} ]]; then
    printf '%s' "$LONGHAUL_BUILD_JOBS"
    return
  fi
  local key value unit cores gigabytes=2 limit
  cores=$(nproc)
  while read -r key value unit; do
    [[ $key == MemTotal: ]] && gigabytes=$((value / 1000000))
  done </proc/meminfo
  limit=$(cat /sys/fs/cgroup/memory.max 2>/dev/null) || limit=max
  if [[ $limit =~ ^[0-9]+$ ]] && ((limit / 1000000000 < gigabytes)); then
    gigabytes=$((limit / 1000000000))
  fi
  local jobs=$((gigabytes / 2))
  ((jobs > cores)) && jobs=$cores
  ((jobs < 1)) && jobs=1
  printf '%s' "$jobs"
}

# Reads ninja's output: all of it into the log, the counts to the terminal as one line that is
# rewritten, or a plain line every ten seconds where there is no terminal.
show_progress() {
  local log=$1 preset=$2 line="" part status shown=0 begin=$SECONDS last=$SECONDS
  local terminal=0
  [[ -t 2 ]] && terminal=1
  while true; do
    IFS= read -r -t 1 part
    status=$?
    line+=$part
    if ((status == 0)); then
      printf '%s\n' "$line" >>"$log"
      if [[ $line =~ ^\[([0-9]+)/([0-9]+)\]\ (.*) ]]; then
        local done_count=${BASH_REMATCH[1]} all_count=${BASH_REMATCH[2]} what=${BASH_REMATCH[3]}
        what=${what##*/}
      fi
      line=""
    fi
    if [[ -n ${all_count:-} ]]; then
      if ((terminal)); then
        printf '\r\033[Kbuilding %s: %s of %s, %d s  %.40s' "$preset" "$done_count" "$all_count" \
          $((SECONDS - begin)) "$what" >&2
        shown=1
      elif ((SECONDS - last >= 10)); then
        say "building $preset: $done_count of $all_count, $((SECONDS - begin)) s"
        last=$SECONDS
      fi
    fi
    ((status == 0 || status > 128)) || break
  done
  ((shown)) && printf '\r\033[K' >&2
  return 0
}

configure_preset() {
  local preset=$1
  local folder="$root/build/$preset"
  local log="$folder/build.log"
  mkdir -p "$folder"
  [[ ! -f $folder/build.ninja ]] || return 0
  say "configuring $preset"
  (cd "$root" && cmake --preset "$preset") >"$log" 2>&1 9>&- </dev/null || build_failed "$log"
}

# Builds targets of a preset: build_preset PRESET TARGET...
build_preset() {
  local preset=$1
  shift
  configure_preset "$preset"
  local folder="$root/build/$preset"
  local log="$folder/build.log"
  : >"$log"
  local status
  NINJA_STATUS='[%f/%t] ' ninja -C "$folder" -j "$(build_jobs)" "$@" 2>&1 9>&- </dev/null |
    show_progress "$log" "$preset"
  status=${PIPESTATUS[0]}
  ((status == 0)) || build_failed "$log"
}

build_failed() {
  local log=$1
  rm -f "$installed_as"  # perhaps a package has gone since: ask again next time
  grep -E -m 20 -A 2 '(error|Error|ERROR|FAILED|undefined reference|No space left)' "$log" >&2 ||
    tail -n 20 "$log" >&2
  die "the build failed; the whole log: $log"
}

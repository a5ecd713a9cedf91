#!/usr/bin/env bash
# A Docker engine and the image lockstep-redis:local, on a bare Debian with root, without any image registry.
# Usage: .ci/docker.sh [file]
# The file gets the pid of the dockerd that was started, and is left empty where an engine ran already, so that the
# caller ends what was started here and nothing else: [ -s file ] && kill "$(cat file)".
set -u -o pipefail

readonly IMAGE=lockstep-redis:local
readonly START_SECONDS=30
pid_file=${1:-/dev/null}

die() {
  echo "docker.sh: $*" >&2
  exit 1
}

# Package mirrors fail now and then; a retry is cheaper than a red run.
retry() {
  local tries=4
  for ((i = 1; i <= tries; i++)); do
    "$@" && return 0
    echo "docker.sh: attempt $i of $tries failed: $*" >&2
    sleep $((5 * i))
  done
  return 1
}

answers() { timeout 10 docker version --format '{{.Server.Version}}' 2>/dev/null; }

# Installs the packages of those given as program:package whose program is missing.
install_missing() {
  local missing=() pair
  for pair in "$@"; do
    PATH=$PATH:/usr/sbin:/sbin command -v "${pair%%:*}" >/dev/null || missing+=("${pair#*:}")
  done
  [ ${#missing[@]} -eq 0 ] && return 0
  command -v apt-get >/dev/null || die "there is no apt-get to install ${missing[*]} with."
  [ "$(id -u)" -eq 0 ] || die "only root can install ${missing[*]}."
  export DEBIAN_FRONTEND=noninteractive
  retry apt-get update -qq || die "the lists of packages cannot be had."
  retry apt-get install -y -qq --no-install-recommends "${missing[@]}" >/dev/null ||
    die "the packages ${missing[*]} cannot be installed."
  echo "docker.sh: installed ${missing[*]}"
}

start_engine() {
  [ "$(id -u)" -eq 0 ] || die "only root can start dockerd."
  local log pid
  log=$(mktemp -t dockerd-XXXXXX.log) || die "no temporary file can be made."
  # In a session of its own: Ctrl-C is for the caller, who ends the engine when the containers are gone.
  PATH=$PATH:/usr/sbin:/sbin setsid dockerd >"$log" 2>&1 </dev/null &
  pid=$!
  echo "$pid" >"$pid_file"
  for ((i = 0; i < START_SECONDS * 5; i++)); do
    if version=$(answers); then
      echo "docker.sh: started dockerd $version as process $pid, with its log in $log"
      return 0
    fi
    kill -0 "$pid" 2>/dev/null || break
    sleep 0.2
  done
  kill "$pid" 2>/dev/null
  : >"$pid_file"
  die "dockerd did not come up, and its log $log ends with: $(tail -n 1 "$log")"
}

# The distribution's redis-server with its libraries, and busybox for those who need a shell in the container.
make_image() {
  local program library
  # Debian has one program under several names, which decide what it does: copied as redis-server, it is that.
  program=$(command -v redis-server) || die "redis-server is not on the PATH."
  root=$(mktemp -d) || die "no temporary folder can be made."
  trap 'rm -rf "$root"' EXIT
  mkdir -p "$root"/{bin,data,etc,proc,sys,tmp,usr/bin} && chmod 1777 "$root/tmp" &&
    cp "$(command -v busybox)" "$root/bin/busybox" &&
    ln -s busybox "$root/bin/sh" && ln -s busybox "$root/bin/grep" && ln -s busybox "$root/bin/nc" &&
    cp -L "$program" "$root/usr/bin/redis-server" || die "the files of the image cannot be copied."
  ldd "$program" | grep -o '/[^ ]*' | while read -r library; do
    mkdir -p "$root$(dirname "$library")" && cp -L "$library" "$root$library" || exit 1
  done || die "the libraries of redis-server cannot be copied."
  tar -C "$root" -c . | docker import --change 'WORKDIR /data' --change 'EXPOSE 6379' \
    --change 'ENV PATH=/usr/bin:/bin' --change 'CMD ["redis-server"]' - "$IMAGE" >/dev/null ||
    die "the image $IMAGE cannot be imported."
  echo "docker.sh: made $IMAGE of $("$program" --version | grep -o 'v=[^ ]*') in $(du -sh "$root" | cut -f1)"
}

: >"$pid_file" || die "the file $pid_file cannot be written."
if version=$(answers); then
  echo "docker.sh: an engine answers already, version $version"
else
  install_missing docker:docker.io dockerd:docker.io iptables:iptables nft:nftables
  # Where there is an init system, the package has started one.
  if version=$(answers); then echo "docker.sh: an engine answers now, version $version"; else start_engine; fi
fi
if docker image inspect "$IMAGE" >/dev/null 2>&1; then
  echo "docker.sh: $IMAGE is there already"
else
  install_missing redis-server:redis-server busybox:busybox-static
  make_image
fi

#!/bin/sh
# Installs or uninstalls koupsandbox. It does not need root. See usage.
set -eu

# The text is not in the comment above, because a script from a pipe cannot read its own file.
usage() {
  cat <<'TEXT'
Installs or uninstalls koupsandbox. It does not need root.

  sh install.sh [--version VERSION] [--dir DIR] [--mirror URL]
  sh install.sh --release DIR|URL [--version VERSION] [--dir DIR]
  sh install.sh --uninstall [--dir DIR]

  --version VERSION  version to install, such as v1.2.3 (default in the install.sh of a release: that release)
  --dir DIR          directory for lib/koupsandbox and for links in bin and share (default ~/.local)
  --mirror URL       mirror with the archive and checksums.txt in URL/VERSION/ (default: the releases on GitHub)
  --release DIR|URL  directory or URL with the archive and checksums.txt of one release, instead of a mirror

Environment variables for the same settings: KOUPSANDBOX_VERSION, KOUPSANDBOX_DIR, KOUPSANDBOX_MIRROR,
KOUPSANDBOX_RELEASE. In addition:

  KOUPSANDBOX_CACHE=DIR            keep the archive and checksums.txt in DIR; a cached archive is verified again
  KOUPSANDBOX_ALLOW_HTTP=1         allow a mirror or a release with an http:// URL
  KOUPSANDBOX_SKIP_ATTESTATION=1   do not verify the attestation, for a release that you built yourself, or
                                   without Internet access

It needs curl or GNU Wget, tar, gzip, and sha256sum, shasum or openssl. If gh or cosign is installed, it
verifies that the release workflow on GitHub built the archive.
TEXT
}

version=
version=${KOUPSANDBOX_VERSION:-$version}
dir=${KOUPSANDBOX_DIR:-${HOME:-}/.local}
mirror=${KOUPSANDBOX_MIRROR:-https://github.com/koupleless/koupsandbox/releases/download}
release=${KOUPSANDBOX_RELEASE:-}
cache=${KOUPSANDBOX_CACHE:-}
uninstall=false

# Links to the installed files: link, target.
links='bin/koupsandbox koupsandbox
share/man/man1/koupsandbox.1 man/man1/koupsandbox.1
share/bash-completion/completions/koupsandbox completions/koupsandbox.bash
share/zsh/site-functions/_koupsandbox completions/_koupsandbox
share/fish/vendor_completions.d/koupsandbox.fish completions/koupsandbox.fish'

fail() { printf 'install.sh: %s\n' "$*" >&2; exit 1; }
has() { command -v "$1" >/dev/null 2>&1; }

while [ $# -gt 0 ]; do
  case $1 in
    --uninstall) uninstall=true; shift; continue ;;
    -h | --help) usage; exit 0 ;;
    --version | --dir | --mirror | --release) if [ $# -lt 2 ] || [ -z "$2" ]; then fail "$1 needs a value"; fi ;;
    *) fail "unknown argument $1; see: sh install.sh --help" ;;
  esac
  case $1 in
    --version) version=$2 ;;
    --dir) dir=$2 ;;
    --mirror) mirror=$2 ;;
    --release) release=$2 ;;
  esac
  shift 2
done
case $dir in
  /.local) fail "HOME is not set: set a directory with --dir" ;;
  /*) ;;
  *) dir=$PWD/$dir ;;
esac
home=$dir/lib/koupsandbox
made=$home/.made # directories that this script created, parents first; its existence marks an installation by this script

# ours PATH: succeeds if PATH does not exist or is a link of this script
ours() {
  if [ -h "$1" ]; then
    case $(readlink "$1") in "$home"/*) return 0 ;; *) return 1 ;; esac
  fi
  [ ! -e "$1" ]
}

remove_links() {
  echo "$links" | while read -r link _; do
    if [ -h "$dir/$link" ] && ours "$dir/$link"; then rm "$dir/$link"; fi
  done
}

# remove_empty DIRECTORIES: removes the empty directories, the last first
remove_empty() {
  echo "$1" | sed '1!G;h;$!d' | while read -r directory; do rmdir "$directory" 2>/dev/null || true; done
}

if $uninstall; then
  [ -e "$home" ] || fail "koupsandbox is not installed in $dir; set its directory with --dir"
  [ -f "$made" ] || fail "$home was not installed by this script and is not removed"
  remove_links
  directories=$(cat "$made")
  rm -rf "$home"
  remove_empty "$directories"
  echo "koupsandbox was uninstalled from $dir. Running sandboxes continue to run; their state is in ~/.koupsandbox."
  exit 0
fi

[ -n "$version$release" ] || fail "the version is missing: set --version v1.2.3"
case $version in v[0-9]*) ;; '') ;; *) fail "$version is not a version: use a version such as v1.2.3" ;; esac
case $(uname -s) in
  Linux) system=linux ;;
  Darwin) system=darwin ;;
  *) fail "$(uname -s) is not supported; supported: Linux and macOS" ;;
esac
case $(uname -m) in
  x86_64 | amd64) system=${system}_amd64 ;;
  aarch64 | arm64) system=${system}_arm64 ;;
  *) fail "the architecture $(uname -m) is not supported; supported: amd64 and arm64" ;;
esac
for tool in tar gzip; do
  has "$tool" || fail "$tool is not installed: install it"
done
protocols='=https'
case ${release:-$mirror} in
  https://*) ;;
  http://*)
    [ "${KOUPSANDBOX_ALLOW_HTTP:-}" = 1 ] || fail "${release:-the mirror $mirror} does not use https: use an https:// URL, or set KOUPSANDBOX_ALLOW_HTTP=1"
    protocols='=http,https'
    ;;
  *) if [ ! -d "$release" ]; then fail "${release:-the mirror $mirror} is not an https:// URL${release:+ or a directory}"; fi ;;
esac
# fetch URL FILE: downloads a file, or copies it from a local release. It follows redirects to https only.
if [ -d "$release" ]; then
  fetch() { cp "$1" "$2"; }
elif has curl; then
  fetch() { curl -fsSL --proto "$protocols" --proto-redir '=https' --retry 2 -o "$2" "$1"; }
elif has wget; then
  case $(wget --version 2>/dev/null) in
    'GNU Wget 1'*) ;;
    *) fail "this wget follows redirects to http: install curl or GNU Wget 1" ;;
  esac
  fetch() {
    from=$1
    for _ in 1 2 3 4 5 6; do
      if said=$(LC_ALL=C wget -nv -S --tries=2 --max-redirect=0 -O "$2" "$from" 2>&1); then return 0; fi
      from=$(echo "$said" | awk 'tolower($1) == "location:" {to = $2} END {print to}')
      case $from in https://*) ;; *) break ;; esac
    done
    echo "$said" >&2
    return 1
  }
else
  fail "neither curl nor wget is installed: install one of them"
fi
if has sha256sum; then
  sum() { sha256sum "$1"; }
elif has shasum; then
  sum() { shasum -a 256 "$1"; }
elif has openssl; then
  sum() { openssl dgst -sha256 -r "$1"; }
else
  fail "none of sha256sum, shasum and openssl is installed: install one of them"
fi

# All checks come before the first change.
[ ! -e "$home" ] || [ -f "$made" ] || fail "$home exists and was not created by this script: remove it, or set another directory with --dir"
echo "$links" | while read -r link _; do
  ours "$dir/$link" || fail "$dir/$link exists and was not created by this script: remove it, or set another directory with --dir"
done

work=$(mktemp -d) || fail "cannot create a temporary directory"
fresh='' made_now=''
# After a failure, the previous installation is restored, and new empty directories are removed.
clean_up() {
  if [ -n "$fresh" ] && [ -d "$fresh/old" ] && [ ! -e "$home" ]; then mv "$fresh/old" "$home"; fi
  rm -rf "$work" ${fresh:+"$fresh"}
  remove_empty "$made_now"
}
# verify checks the attestation of the archive with gh or cosign.
verify() {
  workflow=https://github.com/koupleless/koupsandbox/.github/workflows/release.yml@refs/tags/$version
  if [ "${KOUPSANDBOX_SKIP_ATTESTATION:-}" = 1 ]; then
    echo "The attestation of $name.tar.gz was not verified: KOUPSANDBOX_SKIP_ATTESTATION is set. The checksum is correct."
    return
  elif has gh && gh attestation verify --help >/dev/null 2>&1; then
    tool=gh
    attested() { gh attestation verify "$1" --bundle "$2" --repo koupleless/koupsandbox --cert-identity "$workflow"; }
  elif has cosign && cosign verify-blob-attestation --help 2>&1 | grep -q -e --new-bundle-format; then
    tool=cosign
    attested() {
      cosign verify-blob-attestation --new-bundle-format --bundle "$2" --type slsaprovenance1 --certificate-identity "$workflow" \
        --certificate-oidc-issuer https://token.actions.githubusercontent.com "$1"
    }
  else
    echo "The attestation of $name.tar.gz was not verified: install gh or cosign to verify it. The checksum is correct."
    return
  fi
  fetch "$url/attestation.json" "$work/attestation.json" ||
    fail "cannot read $url/attestation.json; nothing was changed. If you built this release yourself, set KOUPSANDBOX_SKIP_ATTESTATION=1"
  said=$(attested "$work/archive" "$work/attestation.json" 2>&1) ||
    fail "$tool does not confirm that the release workflow of koupsandbox built $name.tar.gz; nothing was changed. If $tool reaches the servers of Sigstore, do not use this mirror. Without Internet access, compare the checksum with the release on GitHub, and set KOUPSANDBOX_SKIP_ATTESTATION=1. $tool printed: $said"
  echo "$tool has verified the attestation of $name.tar.gz."
}
trap clean_up EXIT
trap 'exit 130' INT
trap 'exit 143' TERM
url=${release:-$mirror/$version}
if [ -n "$release" ]; then hint="check --release"; else hint="check the version $version and the network, or set another --mirror"; fi
fetch "$url/checksums.txt" "$work/checksums.txt" || fail "cannot read $url/checksums.txt: $hint"
if [ -n "$release" ]; then
  found=$(awk -v end="_$system.tar.gz" '{sub(/^\*/, "", $2)} index($2, "koupsandbox_v") == 1 && sub(end "$", "", $2) {print substr($2, 13)}' "$work/checksums.txt")
  case $found in
    '') fail "$release has no archive koupsandbox_VERSION_$system.tar.gz" ;;
    *[!0-9A-Za-z.-]*) fail "$release has more than one version: use a directory with the files of one release" ;;
  esac
  [ "${version:-$found}" = "$found" ] || fail "$release has the version $found instead of $version"
  version=$found
fi
name=koupsandbox_${version}_$system
wanted=$(awk -v name="$name.tar.gz" '$2 == name || $2 == "*" name {print $1}' "$work/checksums.txt")
[ -n "$wanted" ] || fail "the release $version has no $name.tar.gz"
got=''
if [ -n "$cache" ] && [ -f "$cache/$name.tar.gz" ]; then
  cp "$cache/$name.tar.gz" "$work/archive"
  got=$(sum "$work/archive" | awk '{print $1}')
fi
if [ "$got" != "$wanted" ]; then
  [ -z "$got" ] || echo "$cache/$name.tar.gz has the checksum $got instead of $wanted: it is read again from $url."
  fetch "$url/$name.tar.gz" "$work/archive" || fail "cannot read $url/$name.tar.gz completely; nothing was changed"
  got=$(sum "$work/archive" | awk '{print $1}')
fi
[ "$got" = "$wanted" ] || fail "$name.tar.gz has the checksum $got instead of $wanted: nothing was changed. Try again, or set another --mirror"
verify
if [ -n "$cache" ]; then
  { mkdir -p "$cache" && cp "$work/archive" "$cache/.$name.$$" && mv "$cache/.$name.$$" "$cache/$name.tar.gz" &&
    cp "$work/checksums.txt" "$cache/.$name.$$" && mv "$cache/.$name.$$" "$cache/checksums.txt"; } || fail "cannot write to $cache; nothing was changed"
fi

# make_directory PATH: creates a directory and its parents, and prints the created ones
make_directory() {
  [ -d "$1" ] || { make_directory "$(dirname "$1")" && mkdir "$1" && echo "$1"; }
}
made_now=$(
  make_directory "$dir/lib" || exit 1
  echo "$links" | while read -r link _; do make_directory "$(dirname "$dir/$link")" || exit 1; done
) || fail "cannot write to $dir: set another directory with --dir"
fresh=$(mktemp -d "$dir/lib/.koupsandbox.XXXXXX") || fail "cannot write to $dir/lib: set another directory with --dir"
mkdir "$fresh/$name"
tar -xzf "$work/archive" -C "$fresh/$name" || fail "cannot unpack $name.tar.gz; nothing was changed"
chmod 755 "$fresh/$name"
{
  if [ -f "$made" ]; then cat "$made"; fi
  if [ -n "$made_now" ]; then echo "$made_now"; fi
} >"$fresh/$name/.made"
if [ -d "$home" ]; then mv "$home" "$fresh/old"; fi
mv "$fresh/$name" "$home"
echo "$links" | while read -r link target; do
  rm -f "$dir/$link"
  ln -s "$home/$target" "$dir/$link"
done

echo "koupsandbox $version is installed in $home."
case :$PATH: in
  *:"$dir/bin":*) echo "Start with: koupsandbox up" ;;
  *) # shellcheck disable=SC2016
    printf 'Start with:\n  export PATH="%s/bin:$PATH"\n  koupsandbox up\n' "$dir" ;;
esac

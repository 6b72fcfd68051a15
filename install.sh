#!/bin/sh
# Installs koupsandbox, without root, and undoes that again: see usage.
set -eu

# It is a text of its own, since a script that comes through a pipe cannot read itself.
usage() {
  cat <<'TEXT'
Installs koupsandbox, without root, and undoes that again:

  sh install.sh [--version VERSION] [--dir DIR] [--mirror URL]
  sh install.sh --uninstall [--dir DIR]

  --version VERSION  such as v1.2.3; one that belongs to a release installs that release by itself
  --dir DIR          gets lib/koupsandbox and links to it in bin and share; ~/.local by itself
  --mirror URL       the archive is at URL/VERSION/, with checksums.txt; the releases on GitHub by itself

The environment has the same: KOUPSANDBOX_VERSION, KOUPSANDBOX_DIR, KOUPSANDBOX_MIRROR. In addition:

  KOUPSANDBOX_CACHE=DIR            keep the archive in DIR; an archive from DIR is verified again
  KOUPSANDBOX_ALLOW_HTTP=1         allow a mirror with an http:// URL
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
cache=${KOUPSANDBOX_CACHE:-}
uninstall=false

# What is installed: a folder with everything, links to files in it, and the list of folders that were made.
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
    --version | --dir | --mirror) if [ $# -lt 2 ] || [ -z "$2" ]; then fail "$1 needs a value"; fi ;;
    *) fail "there is no argument $1; see: sh install.sh --help" ;;
  esac
  case $1 in
    --version) version=$2 ;;
    --dir) dir=$2 ;;
    --mirror) mirror=$2 ;;
  esac
  shift 2
done
case $dir in
  /.local) fail "there is no home folder: name a folder with --dir" ;;
  /*) ;;
  *) dir=$PWD/$dir ;;
esac
home=$dir/lib/koupsandbox
made=$home/.made # the mark of this script: the folders that it made, the outermost first

# ours PATH: is there our link, or nothing?
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

# remove_empty FOLDERS: removes those that nothing is in, the last first.
remove_empty() {
  echo "$1" | sed '1!G;h;$!d' | while read -r folder; do rmdir "$folder" 2>/dev/null || true; done
}

if $uninstall; then
  [ -e "$home" ] || fail "nothing is installed in $dir; name the folder with --dir"
  [ -f "$made" ] || fail "$home was not installed by this script, so it is left alone"
  remove_links
  folders=$(cat "$made")
  rm -rf "$home"
  remove_empty "$folders"
  echo "koupsandbox is gone from $dir. Sandboxes that are up go on; their state is in ~/.koupsandbox."
  exit 0
fi

[ -n "$version" ] || fail "say which version: --version v1.2.3"
case $version in v[0-9]*) ;; *) fail "$version is no version: it begins with v, as in v1.2.3" ;; esac
case $(uname -s) in
  Linux) system=linux ;;
  Darwin) system=darwin ;;
  *) fail "there are no programs for $(uname -s), only for Linux and macOS" ;;
esac
case $(uname -m) in
  x86_64 | amd64) system=${system}_amd64 ;;
  aarch64 | arm64) system=${system}_arm64 ;;
  *) fail "there are no programs for the processor $(uname -m), only for amd64 and arm64" ;;
esac
for tool in tar gzip; do
  has "$tool" || fail "$tool is missing: install it"
done
protocols='=https'
case $mirror in
  https://*) ;;
  http://*)
    [ "${KOUPSANDBOX_ALLOW_HTTP:-}" = 1 ] || fail "the mirror $mirror does not use https: name an https:// URL, or set KOUPSANDBOX_ALLOW_HTTP=1"
    protocols='=http,https'
    ;;
  *) fail "the mirror $mirror is not an https:// URL" ;;
esac
# fetch URL FILE: downloads a file. It follows redirects to https only.
if has curl; then
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
  fail "curl is missing, and wget too: install one of them"
fi
if has sha256sum; then
  sum() { sha256sum "$1"; }
elif has shasum; then
  sum() { shasum -a 256 "$1"; }
elif has openssl; then
  sum() { openssl dgst -sha256 -r "$1"; }
else
  fail "sha256sum is missing, and shasum and openssl too: install one of them"
fi

# Everything is looked at before anything is changed.
[ ! -e "$home" ] || [ -f "$made" ] || fail "$home is there, and was not made by this script: remove it, or choose another folder with --dir"
echo "$links" | while read -r link _; do
  ours "$dir/$link" || fail "$dir/$link is there, and was not made by this script: remove it, or choose another folder with --dir"
done

name=koupsandbox_${version}_$system
work=$(mktemp -d) || fail "a temporary folder cannot be made"
fresh='' made_now=''
# Whatever happens: what was installed before is there again, and no empty folder is left.
clean_up() {
  if [ -n "$fresh" ] && [ -d "$fresh/old" ] && [ ! -e "$home" ]; then mv "$fresh/old" "$home"; fi
  rm -rf "$work" ${fresh:+"$fresh"}
  remove_empty "$made_now"
}
# verify checks the attestation of the archive with gh or cosign.
verify() {
  workflow=https://github.com/koupleless/koupsandbox/.github/workflows/release.yml@refs/tags/$version
  if [ "${KOUPSANDBOX_SKIP_ATTESTATION:-}" = 1 ]; then
    echo "The attestation of $name.tar.gz was not verified: KOUPSANDBOX_SKIP_ATTESTATION is set. The checksum is right."
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
    echo "The attestation of $name.tar.gz was not verified: install gh or cosign for that. The checksum is right."
    return
  fi
  fetch "$url/attestation.json" "$work/attestation.json" ||
    fail "$url/attestation.json cannot be fetched; nothing was changed. If you built this release yourself, set KOUPSANDBOX_SKIP_ATTESTATION=1"
  said=$(attested "$work/archive" "$work/attestation.json" 2>&1) ||
    fail "$tool does not confirm that the release workflow of koupsandbox built $name.tar.gz; nothing was changed. If $tool reaches the servers of Sigstore, do not use this mirror. Without Internet access, compare the checksum with the release on GitHub, and set KOUPSANDBOX_SKIP_ATTESTATION=1. $tool printed: $said"
  echo "$tool has verified the attestation of $name.tar.gz."
}
trap clean_up EXIT
trap 'exit 130' INT
trap 'exit 143' TERM
url=$mirror/$version
fetch "$url/checksums.txt" "$work/checksums.txt" || fail "$url/checksums.txt cannot be fetched: is there a release $version, and does the network reach it? --mirror names another place"
wanted=$(awk -v name="$name.tar.gz" '$2 == name || $2 == "*" name {print $1}' "$work/checksums.txt")
[ -n "$wanted" ] || fail "the release $version has no $name.tar.gz"
got=''
if [ -n "$cache" ] && [ -f "$cache/$name.tar.gz" ]; then
  cp "$cache/$name.tar.gz" "$work/archive"
  got=$(sum "$work/archive" | awk '{print $1}')
fi
if [ "$got" != "$wanted" ]; then
  [ -z "$got" ] || echo "$cache/$name.tar.gz has the checksum $got, and $wanted is right: it is fetched again."
  fetch "$url/$name.tar.gz" "$work/archive" || fail "$url/$name.tar.gz cannot be fetched whole; nothing was changed"
  got=$(sum "$work/archive" | awk '{print $1}')
fi
[ "$got" = "$wanted" ] || fail "$name.tar.gz has the checksum $got, and $wanted is right: nothing was changed. Try again, or another --mirror"
verify
if [ -n "$cache" ]; then
  { mkdir -p "$cache" && cp "$work/archive" "$cache/.$name.$$" && mv "$cache/.$name.$$" "$cache/$name.tar.gz"; } || fail "$cache cannot be written to; nothing was changed"
fi

# make_folder PATH: makes a folder with those above it, and prints which it has made.
make_folder() {
  [ -d "$1" ] || { make_folder "$(dirname "$1")" && mkdir "$1" && echo "$1"; }
}
made_now=$(
  make_folder "$dir/lib" || exit 1
  echo "$links" | while read -r link _; do make_folder "$(dirname "$dir/$link")" || exit 1; done
) || fail "$dir cannot be written to: choose another folder with --dir"
fresh=$(mktemp -d "$dir/lib/.koupsandbox.XXXXXX") || fail "$dir/lib cannot be written to: choose another folder with --dir"
mkdir "$fresh/$name"
tar -xzf "$work/archive" -C "$fresh/$name" || fail "$name.tar.gz cannot be unpacked; nothing was changed"
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
  *:"$dir/bin":*) echo "Begin with: koupsandbox up" ;;
  *) # shellcheck disable=SC2016
    printf 'Begin with:\n  export PATH="%s/bin:$PATH"\n  koupsandbox up\n' "$dir" ;;
esac

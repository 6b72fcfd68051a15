# Shows the progress of `go build -v` and the time left. Its first file has the weight and the import path of each package that is
# compiled, and its standard input the output of go build, with a line ".time SECONDS" every second. It prints all other lines.
# On a terminal (terminal=1), it rewrites one line; otherwise it prints a line for every 10 %, and at least every minute. cores is the
# number of CPU cores, and speed the expected weight per second, which counts until 5 % are compiled.
function span(seconds) {
  return seconds < 90 ? "1 minute" : sprintf("%d minutes", seconds / 60 + 0.5)
}
function show(  share, left, line) {
  share = int(100 * done / total)
  left = (done > total / 20 && time > 0) ? time * (total - done) / done : total / speed - time
  line = sprintf("%3d %% compiled after %d:%02d, %s", share, time / 60, time % 60,
    share < 100 ? "about " span(left) " left" : "linking the binaries")
  if (terminal) {
    printf "\r%-50s", line
  } else if (int(share / 10) > tenth || time >= printed + 60) {
    tenth = int(share / 10)
    printed = time
    print line
  }
  fflush()
}
function clear() {
  if (terminal) printf "\r%50s\r", ""
}
# A path occurs twice if two modules use different versions of the package.
FNR == NR {weight[$2, ++occurrences[$2]] = $1; total += $1; packages++; next}
FNR == 1 {
  printf "Compiling %d packages takes about %s on %d CPU cores. Later builds take seconds.\n", packages, span(total / speed), cores
}
/^\.time / {time = $2; show(); next}
# The Makefile prints this line before it starts to compile a binary. All packages before it are finished.
/^Compiling / {while (finished < started) done += sizes[++finished]; next}
# go build prints a package when it starts to compile it. About as many packages as cores are not finished yet.
$0 in occurrences {
  sizes[++started] = weight[$0, ++compiled[$0]]
  if (started - finished > cores) done += sizes[++finished]
  show()
  next
}
{clear(); print; fflush()}
END {clear()}

package board

import (
	"bytes"
	"flag"
	"fmt"
	"image"
	"image/color"
	"image/png"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/browser"
	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/chromedp"

	"github.com/koupleless/koupsandbox/e2e/internal/check"
)

var update = flag.Bool("update", false, "take the pictures of testdata/pictures anew")

// pictures are those that are committed; madeWith says with which fonts and which browser.
const (
	pictures = "testdata/pictures"
	madeWith = pictures + "/made-with.txt"
)

const (
	// unlike is by how much a colour of a pixel may differ, of 255: edges of letters are not always the same.
	unlike = 64
	// mostUnlike is how many of a million pixels may differ more. A word has some hundred.
	mostUnlike = 150
)

// The page looks as it did when somebody looked at it last: every view on a laptop, some on a
// projector in the dark. What has come out otherwise stays in the artifacts, with what differs.
func TestPictures(t *testing.T) {
	ctx, f := newBrowser(t), still(t, "3")
	here := surroundings(t, chromedp.FromContext(ctx).Browser)
	if *update {
		check.Must(t, os.MkdirAll(pictures, 0o755))
		check.Must(t, os.WriteFile(madeWith, []byte(here), 0o644))
	}
	there, err := os.ReadFile(madeWith)
	check.Must(t, err)
	if string(there) != here {
		t.Skipf("*** THE BOARD'S PICTURES ARE NOT COMPARED: letters look otherwise here. They were made with\n%shere are\n%s***", there, here)
	}
	for _, c := range []struct {
		look  look
		name  string
		views []string
	}{
		{look{1280, 720, false, "en"}, "laptop", []string{"overview", "lanes", "modules", "workloads", "traffic", "log", "components"}},
		{look{1920, 1080, true, "en"}, "projector", []string{"overview", "lanes", "workloads"}},
	} {
		for _, view := range views {
			if !strings.Contains(strings.Join(c.views, " "), view.name) {
				continue
			}
			name := view.name + "-" + c.name
			t.Run(name, func(t *testing.T) {
				p := open(ctx, t, f.url+"/?view="+view.name+"&sel="+view.sel, c.look)
				p.ready()
				p.wait(mainHas(view.english))
				if view.sel != "" {
					p.wait(`document.querySelector(".cause")`)
				}
				p.run(chromedp.Evaluate(`document.documentElement.style.setProperty("--mono", "monospace"); document.activeElement.blur(); document.getAnimations().forEach((a) => { a.pause(); a.currentTime = 0; }); new Promise((r) => requestAnimationFrame(() => requestAnimationFrame(() => r(0))))`, nil))
				like(t, name, func() (got []byte) {
					p.run(chromedp.CaptureScreenshot(&got))
					return got
				})
			})
		}
	}
}

// surroundings are what letters look like: the fonts, and the browser's version. The page would rather have
// other fonts of fixed width; the pictures are taken with the one that is named here.
func surroundings(t *testing.T, b *chromedp.Browser) string {
	t.Helper()
	_, product, _, _, _, err := browser.GetVersion().Do(cdp.WithExecutor(t.Context(), b))
	check.Must(t, err)
	major, _, _ := strings.Cut(product, ".")
	lines := []string{major}
	for _, font := range []string{"system-ui", "sans-serif", "monospace"} {
		out, err := exec.CommandContext(t.Context(), "fc-match", font, "family", "fontversion").Output()
		if err != nil {
			out = []byte("unknown\n")
		}
		lines = append(lines, font+": "+strings.TrimSpace(string(out)))
	}
	return strings.Join(lines, "\n") + "\n"
}

// like fails the test if a picture does not become that which is committed: a canvas may be drawn later than the page
// is there, on a machine that has other work.
func like(t *testing.T, name string, take func() []byte) {
	t.Helper()
	picture := take()
	got, err := png.Decode(bytes.NewReader(picture))
	check.Must(t, err)
	file := filepath.Join(pictures, name+".png")
	if *update {
		check.Must(t, os.WriteFile(file, small(t, got), 0o644))
	}
	text, err := os.ReadFile(file)
	check.Must(t, err)
	want, err := png.Decode(bytes.NewReader(text))
	check.Must(t, err)
	if want.Bounds() != got.Bounds() {
		t.Fatalf("it has the size %v, want %v", got.Bounds(), want.Bounds())
	}
	all := got.Bounds().Dx() * got.Bounds().Dy()
	differs, n := difference(want, got)
	for until := time.Now().Add(pageTime); n*1e6 > mostUnlike*all && time.Now().Before(until); differs, n = difference(want, got) {
		picture = take()
		got, err = png.Decode(bytes.NewReader(picture))
		check.Must(t, err)
	}
	if n*1e6 <= mostUnlike*all {
		return
	}
	for kind, content := range map[string][]byte{"got": picture, "differs": small(t, differs)} {
		check.Must(t, os.WriteFile(filepath.Join(shots(), fmt.Sprintf("%s-%s.png", name, kind)), content, 0o600))
	}
	t.Errorf("%d of %d pixels differ from %s: look at %s-differs.png in %s, and take it anew with -update if it is as it should be", n, all, file, name, shots())
}

// difference paints black what differs, and counts it.
func difference(a, b image.Image) (picture image.Image, n int) {
	differs := image.NewPaletted(a.Bounds(), color.Palette{color.White, color.Black})
	far := func(x, y uint32) bool { return max(x, y)-min(x, y) > unlike<<8 }
	for y := a.Bounds().Min.Y; y < a.Bounds().Max.Y; y++ {
		for x := a.Bounds().Min.X; x < a.Bounds().Max.X; x++ {
			r1, g1, b1, _ := a.At(x, y).RGBA()
			r2, g2, b2, _ := b.At(x, y).RGBA()
			if far(r1, r2) || far(g1, g2) || far(b1, b2) {
				differs.Set(x, y, color.Black)
				n++
			}
		}
	}
	return differs, n
}

// few are so many colours as a byte can number, evenly apart: what is kept has no others, so that dark
// pictures look odd.
var few = func() (p color.Palette) {
	for r := range 6 {
		for g := range 7 {
			for b := range 6 {
				p = append(p, color.RGBA{uint8(r * 51), uint8(g * 255 / 6), uint8(b * 51), 255}) //nolint:gosec // at most 255
			}
		}
	}
	return p
}()

// small is a picture as a PNG that takes little room.
func small(t *testing.T, picture image.Image) []byte {
	t.Helper()
	size := picture.Bounds()
	reduced := image.NewPaletted(size, few)
	for y := size.Min.Y; y < size.Max.Y; y++ {
		for x := size.Min.X; x < size.Max.X; x++ {
			r, g, b, _ := picture.At(x, y).RGBA()
			near := func(c uint32, steps uint32) uint32 { return (c*steps + 0x7fff) / 0xffff }
			reduced.SetColorIndex(x, y, uint8(near(r, 5)*42+near(g, 6)*6+near(b, 5))) //nolint:gosec // at most 251
		}
	}
	var b bytes.Buffer
	check.Must(t, (&png.Encoder{CompressionLevel: png.BestCompression}).Encode(&b, reduced))
	return b.Bytes()
}

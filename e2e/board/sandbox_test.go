package board

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"sigs.k8s.io/e2e-framework/pkg/envconf"

	"github.com/koupleless/koupsandbox/e2e/internal/box"
	"github.com/koupleless/koupsandbox/sandbox/api/v1alpha1"
)

// realBoard is the board of a sandbox that is up, as a process of its own.
func realBoard(t *testing.T) (address string, b *box.Box) {
	t.Helper()
	ctx := context.Background()
	home, err := os.MkdirTemp("", "koup-e2e-") // a short path, because sockets go there
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(home) }) // a folder for temporary files
	programs, err := box.FindPrograms(filepath.Join("..", ".."))
	if err != nil {
		t.Fatal(err)
	}
	b = &box.Box{Bin: programs, Home: home, Name: envconf.RandomName("board", 10)}
	t.Cleanup(func() {
		if err := b.Down(ctx); err != nil {
			t.Error(err)
		}
	})
	two := 2
	if err := b.Up(ctx, v1alpha1.Spec{Bases: v1alpha1.Bases{Count: &two, Name: "shop"}}); err != nil {
		t.Fatal(err)
	}
	cmd := b.Command(ctx, "board", "--name", b.Name, "--no-open", "-o", "json")
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGINT) // Ctrl-C
		if err := cmd.Wait(); err != nil {
			t.Errorf("the board ended with %v", err)
		}
	})
	var printed struct{ URL string }
	if err := json.NewDecoder(out).Decode(&printed); err != nil {
		t.Fatal(err)
	}
	return printed.URL, b
}

// The page of a real sandbox shows its bases, says why, sets a fault, and is refused to others.
func TestARealSandbox(t *testing.T) {
	address, b := realBoard(t)
	root, _, _ := strings.Cut(address, "/#")
	browser := newBrowser(t)
	p := open(browser, t, address, look{})
	p.ready()
	p.wait(mainHas("base-1"))
	p.wait(mainHas("base-2"))
	if hash := get[string](p, "location.hash"); hash != "" {
		t.Errorf("the token is still in the address: %s", hash)
	}
	p.click(".card", "base-2")
	p.wait(`document.querySelector(".cause")?.textContent.includes("is Ready")`)
	p.click(".actions button", "Set a fault")
	p.wait(`document.querySelector("dialog output")?.textContent === "base-2"`)
	p.click("dialog .main", "Do it")
	p.wait(`!document.querySelector("dialog[open]") || document.querySelector("dialog")?.textContent.includes("is set on base-2")`)
	up, err := b.Open(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	defer up.Close()
	faults, err := up.Faults(context.Background(), "base-2")
	if err != nil || len(faults) != 1 || !strings.Contains(string(faults[0].Fault), `"latency"`) {
		t.Errorf("base-2 has the faults %v, error %v; want one of kind latency", faults, err)
	}
	p.shot("real-sandbox")
	p.fine(&fixture{url: root})

	p = open(newBrowser(t), t, address, look{}) // the address was used
	p.wait(`document.querySelector("h1")?.textContent === "This board needs its token"`)
	p.wait("!" + mainHas("base-1"))
}

package embedded

import (
	"crypto/tls"
	"crypto/x509"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/koupleless/koupsandbox/sandbox/internal/check"
)

var wanted = certificates()

// contents reads every file of a directory, and fails on one that others may read.
func contents(t *testing.T, dir string) map[string]string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	check.Must(t, err)
	files := map[string]string{}
	for _, e := range entries {
		data, err := os.ReadFile(filepath.Join(dir, e.Name()))
		check.Must(t, err)
		files[e.Name()] = string(data)
		if info, err := e.Info(); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%s has mode %v (%v), want 0600", e.Name(), info.Mode(), err)
		}
	}
	return files
}

// A second start keeps the authorities and the key of service accounts, and issues new certificates. What cannot be kept is
// made again.
func TestPKIOfASecondStart(t *testing.T) {
	authorities := []string{"ca.crt", "etcd-ca.crt", "front-proxy-ca.crt", "kubelet-client-ca.crt"}
	for name, tc := range map[string]struct {
		spoil func(t *testing.T, dir string)
		why   string // part of the reason why an authority was made again
		kept  []string
	}{
		"all is sound": {kept: append([]string{saKey}, authorities...)},
		"an authority is cut off": {spoil: func(t *testing.T, dir string) {
			check.Must(t, os.Truncate(filepath.Join(dir, "ca.crt"), 40))
		}, why: "ca.crt", kept: append([]string{saKey}, authorities[1:]...)},
		"a certificate is in the place of an authority": {spoil: func(t *testing.T, dir string) {
			check.Must(t, os.Rename(filepath.Join(dir, "apiserver.crt"), filepath.Join(dir, "ca.crt")))
			check.Must(t, os.Rename(filepath.Join(dir, "apiserver.key"), filepath.Join(dir, "ca.key")))
		}, why: "not that of an authority", kept: append([]string{saKey}, authorities[1:]...)},
		"the key of service accounts is missing": {spoil: func(t *testing.T, dir string) {
			check.Must(t, os.Remove(filepath.Join(dir, saKey)))
		}, kept: authorities},
	} {
		t.Run(name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "pki")
			_, _, err := makePKI(dir, wanted)
			check.Must(t, err)
			first := contents(t, dir)
			if want := 2*(len(authorities)+len(wanted)) + 1; len(first) != want {
				t.Errorf("%d files, want %d", len(first), want)
			}
			if tc.spoil != nil {
				tc.spoil(t, dir)
			}
			_, remade, err := makePKI(dir, wanted)
			check.Must(t, err)
			if !strings.Contains(remade, tc.why) || (remade == "") != (tc.why == "") {
				t.Errorf("made anew because %q, want something with %q", remade, tc.why)
			}
			var kept []string
			for file, text := range contents(t, dir) {
				if text == first[file] && !strings.HasSuffix(file, "ca.key") {
					kept = append(kept, file)
				}
			}
			if diff := cmp.Diff(slices.Sorted(slices.Values(tc.kept)), slices.Sorted(slices.Values(kept))); diff != "" {
				t.Errorf("files that were kept (-want +got):\n%s", diff)
			}
		})
	}
}

// What one authority signs must not be believed where another is asked for.
func TestAuthoritiesAreApart(t *testing.T) {
	p, _, err := makePKI(filepath.Join(t.TempDir(), "pki"), wanted)
	check.Must(t, err)
	for _, c := range wanted {
		pair, err := tls.LoadX509KeyPair(p.crt(c.file), p.key(c.file))
		check.Must(t, err)
		for name, ca := range p.cas {
			roots := x509.NewCertPool()
			roots.AddCert(ca.Certificate())
			_, err := pair.Leaf.Verify(
				x509.VerifyOptions{Roots: roots, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageAny}})
			if believed := err == nil; believed != (name == c.ca) {
				t.Errorf("%s: believed by %s is %v", c.file, name, believed)
			}
		}
	}
}

func TestCertificatesSayWhatTheyAreFor(t *testing.T) {
	p, _, err := makePKI(filepath.Join(t.TempDir(), "pki"), wanted)
	check.Must(t, err)
	type usage struct {
		Name           string
		Groups         []string
		Server, Client bool
	}
	got := map[string]usage{}
	for _, c := range wanted {
		pair, err := tls.LoadX509KeyPair(p.crt(c.file), p.key(c.file))
		check.Must(t, err)
		u := usage{Name: pair.Leaf.Subject.CommonName, Groups: pair.Leaf.Subject.Organization}
		for _, k := range pair.Leaf.ExtKeyUsage {
			u.Server = u.Server || k == x509.ExtKeyUsageServerAuth
			u.Client = u.Client || k == x509.ExtKeyUsageClientAuth
		}
		got[c.file] = u
	}
	want := map[string]usage{
		"etcd":                     {"etcd", nil, true, true},
		"apiserver-etcd-client":    {"kube-apiserver-etcd-client", nil, false, true},
		"apiserver":                {"kube-apiserver", nil, true, false},
		"apiserver-kubelet-client": {"kube-apiserver-kubelet-client", []string{"system:masters"}, false, true},
		"front-proxy-client":       {"front-proxy-client", nil, false, true},
		"kube-controller-manager":  {"kube-controller-manager", nil, true, false},
		"kube-scheduler":           {"kube-scheduler", nil, true, false},
		"user-admin":               {"koupsandbox-admin", []string{"system:masters"}, false, true},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

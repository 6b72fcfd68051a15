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

// contents returns the contents of all files in a directory. It fails the test if other users can read a file.
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

// TestPKISecondStart checks that a second start keeps the CAs and the service account key, issues new certificates,
// and replaces damaged files.
func TestPKISecondStart(t *testing.T) {
	cas := []string{"ca.crt", "etcd-ca.crt", "front-proxy-ca.crt", "kubelet-client-ca.crt"}
	for name, tc := range map[string]struct {
		damage func(t *testing.T, dir string)
		reason string // substring of the reason why a CA was replaced
		kept   []string
	}{
		"undamaged": {kept: append([]string{saKey}, cas...)},
		"truncated CA certificate": {damage: func(t *testing.T, dir string) {
			check.Must(t, os.Truncate(filepath.Join(dir, "ca.crt"), 40))
		}, reason: "ca.crt", kept: append([]string{saKey}, cas[1:]...)},
		"certificate is not a CA certificate": {damage: func(t *testing.T, dir string) {
			check.Must(t, os.Rename(filepath.Join(dir, "apiserver.crt"), filepath.Join(dir, "ca.crt")))
			check.Must(t, os.Rename(filepath.Join(dir, "apiserver.key"), filepath.Join(dir, "ca.key")))
		}, reason: "not a CA certificate", kept: append([]string{saKey}, cas[1:]...)},
		"missing key for service accounts": {damage: func(t *testing.T, dir string) {
			check.Must(t, os.Remove(filepath.Join(dir, saKey)))
		}, kept: cas},
	} {
		t.Run(name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "pki")
			_, _, err := makePKI(dir, wanted)
			check.Must(t, err)
			first := contents(t, dir)
			if want := 2*(len(cas)+len(wanted)) + 1; len(first) != want {
				t.Errorf("%d files, want %d", len(first), want)
			}
			if tc.damage != nil {
				tc.damage(t, dir)
			}
			_, replaced, err := makePKI(dir, wanted)
			check.Must(t, err)
			if !strings.Contains(replaced, tc.reason) || (replaced == "") != (tc.reason == "") {
				t.Errorf("reason %q, want %q", replaced, tc.reason)
			}
			var kept []string
			for file, text := range contents(t, dir) {
				if text == first[file] && !strings.HasSuffix(file, "ca.key") {
					kept = append(kept, file)
				}
			}
			if diff := cmp.Diff(slices.Sorted(slices.Values(tc.kept)), slices.Sorted(slices.Values(kept))); diff != "" {
				t.Errorf("kept files (-want +got):\n%s", diff)
			}
		})
	}
}

// TestCAsAreSeparate checks that a certificate is accepted only by components that trust its CA.
func TestCAsAreSeparate(t *testing.T) {
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
			if accepted := err == nil; accepted != (name == c.ca) {
				t.Errorf("%s accepted by %s: %t", c.file, name, accepted)
			}
		}
	}
}

func TestCertificateUsages(t *testing.T) {
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

package embedded

import (
	"crypto/x509"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

var wanted = certificates(net.ParseIP("10.96.0.1"), "cluster.local")

// contents reads every file of a folder, and fails on one that others may read.
func contents(t *testing.T, dir string) map[string]string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	must(t, err)
	files := map[string]string{}
	for _, e := range entries {
		data, err := os.ReadFile(filepath.Join(dir, e.Name()))
		must(t, err)
		files[e.Name()] = string(data)
		if info, err := e.Info(); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%s has mode %v (%v), want 0600", e.Name(), info.Mode(), err)
		}
	}
	return files
}

func TestSoundPKIIsKept(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "pki")
	now := time.Now()
	_, _, err := ensurePKI(dir, wanted, now)
	must(t, err)
	first := contents(t, dir)
	if want := 2*(4+len(wanted)) + 1; len(first) != want {
		t.Errorf("%d files, want %d", len(first), want)
	}
	_, remade, err := ensurePKI(dir, wanted, now.Add(validity-2*leftover))
	if err != nil || remade != "" {
		t.Errorf("the second start: %q, %v", remade, err)
	}
	if diff := cmp.Diff(first, contents(t, dir)); diff != "" {
		t.Errorf("changed by the second start (-first +second):\n%s", diff)
	}
}

func TestUnsoundPKIIsMadeAnew(t *testing.T) {
	regrouped := slices.Clone(wanted)
	i := slices.IndexFunc(regrouped, func(c certificate) bool { return c.file == adminCertificate })
	regrouped[i].groups = []string{"another"}
	for name, tc := range map[string]struct {
		spoil  func(t *testing.T, dir string)
		wanted []certificate
		later  time.Duration
		why    string
	}{
		"it expires within a day": {later: validity - leftover/2, why: "expired"},
		"its service network is another": {
			wanted: certificates(net.ParseIP("10.97.0.1"), "cluster.local"), why: "10.97.0.1",
		},
		"a certificate is cut off": {spoil: func(t *testing.T, dir string) {
			must(t, os.Truncate(filepath.Join(dir, "apiserver.crt"), 40))
		}, why: "apiserver.crt"},
		"a key is that of another certificate": {spoil: func(t *testing.T, dir string) {
			must(t, os.Remove(filepath.Join(dir, "apiserver.key")))
			must(t, os.Link(filepath.Join(dir, "etcd.key"), filepath.Join(dir, "apiserver.key")))
		}, why: "apiserver.crt"},
		"an authority is another": {spoil: func(t *testing.T, dir string) {
			must(t, os.Rename(filepath.Join(dir, "etcd-ca.crt"), filepath.Join(dir, "ca.crt")))
			must(t, os.Rename(filepath.Join(dir, "etcd-ca.key"), filepath.Join(dir, "ca.key")))
		}},
		"a file is missing":            {spoil: func(t *testing.T, dir string) { must(t, os.Remove(filepath.Join(dir, saKey))) }},
		"a client is of another group": {wanted: regrouped, why: "for the groups"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "pki")
			now := time.Now()
			first, _, err := ensurePKI(dir, wanted, now)
			must(t, err)
			if tc.spoil != nil {
				tc.spoil(t, dir)
			}
			if tc.wanted == nil {
				tc.wanted = wanted
			}
			second, remade, err := ensurePKI(dir, tc.wanted, now.Add(tc.later))
			must(t, err)
			if !strings.Contains(remade, tc.why) {
				t.Errorf("made anew because %q, want something with %q", remade, tc.why)
			}
			if first.cas[clusterCA].cert.Equal(second.cas[clusterCA].cert) {
				t.Error("the old authority is still used")
			}
			if _, err := loadPKI(dir, tc.wanted, now.Add(tc.later)); err != nil {
				t.Errorf("what was made anew is not sound: %v", err)
			}
		})
	}
}

// What one authority signs must not be believed where another is asked for.
func TestAuthoritiesAreApart(t *testing.T) {
	p, _, err := ensurePKI(filepath.Join(t.TempDir(), "pki"), wanted, time.Now())
	must(t, err)
	for _, c := range wanted {
		pair, _, err := p.read(c.file)
		must(t, err)
		for name, ca := range p.cas {
			roots := x509.NewCertPool()
			roots.AddCert(ca.cert)
			_, err := pair.Leaf.Verify(x509.VerifyOptions{Roots: roots, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageAny}})
			if believed := err == nil; believed != (name == c.ca) {
				t.Errorf("%s: believed by %s is %v", c.file, name, believed)
			}
		}
	}
}

func TestCertificatesSayWhatTheyAreFor(t *testing.T) {
	p, _, err := ensurePKI(filepath.Join(t.TempDir(), "pki"), wanted, time.Now())
	must(t, err)
	type usage struct {
		Name           string
		Groups         []string
		Server, Client bool
	}
	got := map[string]usage{}
	for _, c := range wanted {
		pair, _, err := p.read(c.file)
		must(t, err)
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

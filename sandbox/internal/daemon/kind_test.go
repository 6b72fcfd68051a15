package daemon

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"debug/elf"
	"encoding/binary"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/koupleless/koupsandbox/sandbox/api/v1alpha1"
	"github.com/koupleless/koupsandbox/sandbox/internal/state"
)

// What the sandbox's authority issues is trusted, for its hosts and no others, by who trusts the authority alone.
func TestAuthority(t *testing.T) {
	a, err := newAuthority("test")
	if err != nil {
		t.Fatal(err)
	}
	certPEM, keyPEM, err := a.issue("172.18.0.1", "localhost")
	if err != nil {
		t.Fatal(err)
	}
	pair, err := tls.X509KeyPair(certPEM, keyPEM)
	if err != nil {
		t.Fatal(err)
	}
	trusted, stranger := x509.NewCertPool(), x509.NewCertPool()
	trusted.AppendCertsFromPEM(a.pem)
	other, err := newAuthority("test")
	if err != nil {
		t.Fatal(err)
	}
	stranger.AppendCertsFromPEM(other.pem)
	got := map[string]bool{}
	for _, host := range []string{"172.18.0.1", "localhost", "127.0.0.1"} {
		got[host] = handshake(t, pair, &tls.Config{RootCAs: trusted, ServerName: host}) == nil
	}
	got["an authority of the same name"] = handshake(t, pair, &tls.Config{RootCAs: stranger, ServerName: "localhost"}) == nil
	want := map[string]bool{"172.18.0.1": true, "localhost": true, "127.0.0.1": false, "an authority of the same name": false}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("who is trusted (-want +got):\n%s", diff)
	}
}

// Where nothing else is said the controller runs in the cluster, unless it cannot, which is told; what was said is left alone.
func TestSettleLocation(t *testing.T) {
	program := filepath.Join(t.TempDir(), "program")
	header := elf.Header64{Ident: [elf.EI_NIDENT]byte{0x7f, 'E', 'L', 'F', byte(elf.ELFCLASS64), byte(elf.ELFDATA2LSB), byte(elf.EV_CURRENT)}, Version: uint32(elf.EV_CURRENT)}
	var text bytes.Buffer
	err := binary.Write(&text, binary.LittleEndian, header)
	if err == nil {
		err = os.WriteFile(program, text.Bytes(), 0o755)
	}
	if err != nil {
		t.Fatal(err)
	}
	for name, tc := range map[string]struct {
		given   v1alpha1.Location
		host    string
		program string
		want    v1alpha1.Location
		note    string
	}{
		"by default":         {host: "172.18.0.1", program: program, want: v1alpha1.LocationCluster},
		"no way":             {program: program, want: v1alpha1.LocationHost, note: "do not reach each other"},
		"no program for it":  {host: "172.18.0.1", program: "kind_test.go", want: v1alpha1.LocationHost, note: "it is no program for Linux"},
		"here, as was said":  {given: v1alpha1.LocationHost, host: "172.18.0.1", program: program, want: v1alpha1.LocationHost},
		"there, as was said": {given: v1alpha1.LocationCluster, program: program, want: v1alpha1.LocationCluster}, // fails later, with what to do
	} {
		t.Run(name, func(t *testing.T) {
			dir := state.Home(t.TempDir()).Dir("test")
			if err := dir.Create(); err != nil {
				t.Fatal(err)
			}
			d := New(Options{Dir: dir, Programs: Programs{Controller: tc.program}})
			config := &v1alpha1.Sandbox{Spec: v1alpha1.Spec{Provider: v1alpha1.ProviderKind, Controller: v1alpha1.Controller{Location: tc.given}}}
			v1alpha1.SetDefaults(config)
			d.made(func(s *sandbox) { s.config, s.platform = config, &placed{&fakePlatform{}, tc.host} })
			var notes []string
			if err := d.settleLocation(func(note string) { notes = append(notes, note) }); err != nil {
				t.Fatal(err)
			}
			got := d.now().config.Spec
			if got.Controller.Location != tc.want || got.Broker.TLS != (tc.want == v1alpha1.LocationCluster) {
				t.Errorf("it runs in %q, TLS %t; want %q", got.Controller.Location, got.Broker.TLS, tc.want)
			}
			if said := strings.Join(notes, "; "); !strings.Contains(said, tc.note) || tc.note == "" && said != "" {
				t.Errorf("told %q, want %q", said, tc.note)
			}
			if otherSettings(d.now().config, config) {
				t.Error("the next up takes what was settled for another setting")
			}
		})
	}
}

// placed is a platform in which this machine has an address.
type placed struct {
	*fakePlatform
	host string
}

func (p *placed) Host() string { return p.host }

func handshake(t *testing.T, pair tls.Certificate, client *tls.Config) error {
	t.Helper()
	l, err := tls.Listen("tcp", net.JoinHostPort(loopback, "0"), &tls.Config{Certificates: []tls.Certificate{pair}})
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan struct{})
	go func() {
		defer close(served)
		if conn, err := l.Accept(); err == nil {
			_, _ = conn.Read(make([]byte, 1)) // the client tells how the handshake went, and hangs up
			_ = conn.Close()
		}
	}()
	conn, err := tls.Dial("tcp", l.Addr().String(), client)
	if err == nil {
		_ = conn.Close()
	}
	_ = l.Close()
	<-served
	return err
}

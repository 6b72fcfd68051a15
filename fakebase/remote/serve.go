package remote

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"strconv"
	"sync"

	"github.com/google/uuid"

	"github.com/koupleless/koupsandbox/fakebase"
	"github.com/koupleless/koupsandbox/fakebase/fault"
	"github.com/koupleless/koupsandbox/fakebase/stdio"
)

// seqHeader of an answer is the number of the last message of the stream that came
// before it.
const seqHeader = "Base-Seq"

// maxOptions is the largest description of a base.
const maxOptions = 1 << 20

// Options describe a base to another process.
type Options struct {
	// Options of the base. Of what their JSON form leaves out, NewIdentity makes random
	// ones, Logger is that of Serve, and all else has its default. Addresses that the base listens on
	// may name no host, or 0.0.0.0: the base then says its own IP.
	fakebase.Options
	// BrokerCA is the authority of an ssl broker, in PEM. Default: the system's.
	BrokerCA []byte
}

// Serve is one base: it learns over conn, from New on the other side, which one
// to be, and runs it until conn or ctx ends. Its listener for module traffic is
// open from the start, since others than that side may use it. The logger gets what the base has to say.
func Serve(ctx context.Context, conn net.Conn, logger *slog.Logger) {
	s := &server{log: logger, out: newOutbox()}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /address", address)
	mux.HandleFunc("POST /base", s.make)
	mux.HandleFunc("GET /follow", s.made(s.follow))
	mux.HandleFunc("POST /run", s.made(s.run))
	mux.HandleFunc("/base/", s.made(func(w http.ResponseWriter, r *http.Request) {
		http.StripPrefix("/base", s.control).ServeHTTP(stamped{w, s.out}, r)
	}))
	stdio.Serve(ctx, conn, mux)
}

type server struct {
	log *slog.Logger
	out *outbox

	mu      sync.Mutex // guards what follows, which is set once
	base    *fakebase.Base
	control http.Handler
}

// stamped adds the number of the last message to an answer.
type stamped struct {
	http.ResponseWriter
	out *outbox
}

func (s stamped) WriteHeader(status int) {
	s.Header().Set(seqHeader, strconv.FormatUint(s.out.seq(), 10))
	s.ResponseWriter.WriteHeader(status)
}

type addressBody struct {
	IP string `json:"ip"`
}

// address says where others reach this process: what a container knows of itself
// need not be asked from its engine.
func address(w http.ResponseWriter, _ *http.Request) {
	addrs, err := net.InterfaceAddrs()
	if err != nil {
		Refuse(w, http.StatusInternalServerError, "reading the addresses of the machine: "+err.Error())
		return
	}
	for _, a := range addrs {
		p, err := netip.ParsePrefix(a.String())
		if err == nil && p.Addr().Is4() && p.Addr().IsGlobalUnicast() {
			Answer(w, http.StatusOK, addressBody{p.Addr().String()})
			return
		}
	}
	Refuse(w, http.StatusInternalServerError, "the machine has no address of IPv4 but its own")
}

// madeBody is what there is at first.
type madeBody struct {
	Status fakebase.Status `json:"status"`
	Faults []fault.Status  `json:"faults"`
}

func (s *server) make(w http.ResponseWriter, r *http.Request) {
	var o Options
	if err := json.NewDecoder(http.MaxBytesReader(w, r.Body, maxOptions)).Decode(&o); err != nil {
		Refuse(w, http.StatusBadRequest, "the body does not describe a base: "+err.Error())
		return
	}
	o.Logger, o.NewIdentity = s.log, uuid.NewString
	if len(o.BrokerCA) > 0 && o.MQTT != nil {
		o.MQTT.TLS = &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: x509.NewCertPool()}
		if !o.MQTT.TLS.RootCAs.AppendCertsFromPEM(o.BrokerCA) {
			Refuse(w, http.StatusBadRequest, "BrokerCA holds no PEM certificate")
			return
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.base != nil {
		Refuse(w, http.StatusConflict, "there is a base already")
		return
	}
	base, err := fakebase.New(o.Options)
	if err == nil {
		_, err = base.WebAddr(r.Context())
	}
	if err != nil {
		Refuse(w, http.StatusBadRequest, err.Error())
		return
	}
	s.base, s.control = base, Control(base)
	base.Trace(func(t fakebase.Trace) { s.out.put(message{Trace: &t}) })
	now, _ := base.Follow(func(e fakebase.Event, after fakebase.Status) { s.out.put(message{Event: &e, Status: &after}) })
	Answer(w, http.StatusOK, madeBody{now, base.Faults()})
}

// made refuses what needs a base while there is none.
func (s *server) made(do http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		s.mu.Lock()
		there := s.base != nil
		s.mu.Unlock()
		if !there {
			Refuse(w, http.StatusConflict, "there is no base yet")
			return
		}
		do(w, r)
	}
}

// follow tells what happens until the base has ended. There is one follower.
func (s *server) follow(w http.ResponseWriter, r *http.Request) {
	encoder, flusher := json.NewEncoder(w), http.NewResponseController(w)
	for {
		if err := flusher.Flush(); err != nil {
			return
		}
		select {
		case <-s.out.wake:
		case <-r.Context().Done():
			return
		}
		messages, all, err := s.out.take()
		if err != nil {
			s.log.Error("nobody follows the base", "err", err)
			panic(http.ErrAbortHandler)
		}
		for _, m := range messages {
			if m.Trace != nil && m.Trace.Fault != nil {
				faults := s.base.Faults()
				m.Faults = &faults
			}
			if err := encoder.Encode(m); err != nil {
				return
			}
		}
		if all {
			return
		}
	}
}

// run runs the base until the body of the request ends. The answer comes when it
// has ended.
func (s *server) run(w http.ResponseWriter, r *http.Request) {
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	read := make(chan struct{})
	go func() {
		defer close(read)
		_, _ = io.Copy(io.Discard, r.Body) // however it ends
		cancel()
	}()
	err := s.base.Start(ctx)
	_ = r.Body.Close() // nothing more is read
	<-read
	if errors.Is(err, fakebase.ErrStarted) {
		Refuse(w, http.StatusConflict, err.Error())
		return
	}
	s.out.end()
	if err != nil {
		Refuse(w, http.StatusInternalServerError, err.Error())
		return
	}
	Answer(w, http.StatusOK, struct{}{})
}

// Package jar reads the manifests of biz jars.
package jar

import (
	"archive/zip"
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sync/singleflight"
)

// DefaultPriority is the priority of a biz whose manifest does not set one (protocol 3.7).
const DefaultPriority = 100

// Manifest holds the manifest attributes of a biz jar (protocol 6, conditions 8 and 9).
type Manifest struct {
	Name, Version  string
	MainClass      string
	WebContextPath string
	Priority       int
}

// ErrorKind is the reason why a jar could not be read.
type ErrorKind int

// The kinds of read errors. Java reports each of them with a different exception.
const (
	Other       ErrorKind = iota // another I/O error
	NotFound                     // no such file, or HTTP status 404 or 410
	Refused                      // connection refused
	UnknownHost                  // Detail is the host
	TimedOut                     // the connection or the download timed out
	NotZip                       // not a zip archive
	NotBiz                       // a zip archive, but not a valid biz; Detail has the reason
)

// Error is the error that Read returns.
type Error struct {
	Kind   ErrorKind
	Detail string
	// Answer is a suffix for error messages. It consists of ": " and a description of the HTTP response whose body
	// was read as the jar, such as an error page of a proxy. It is empty for a local file.
	Answer string
	err    error
}

func (e *Error) Error() string {
	if e.err != nil {
		return e.Detail + ": " + e.err.Error()
	}
	return e.Detail
}

func (e *Error) Unwrap() error { return e.err }

// IsMalformed reports whether the file was read but is not a biz jar.
func IsMalformed(err error) bool {
	var e *Error
	return errors.As(err, &e) && (e.Kind == NotZip || e.Kind == NotBiz)
}

// Limits configures the size limit and the timeouts of a Reader.
type Limits struct {
	// Size is the maximum size of a jar file in bytes. Default: 256 MiB.
	Size int64
	// Connect is the connection timeout. Total is the timeout of the whole download. Default: 2 s and 30 s.
	Connect, Total time.Duration
}

// Reader reads the manifests of jars. It caches the manifests of HTTP URLs, so that many bases download a jar only
// once. It is safe for concurrent use.
type Reader struct {
	limits Limits
	client *http.Client
	flight singleflight.Group

	mu    sync.Mutex
	cache map[string]Manifest // manifests by URL
}

// NewReader returns a Reader with an empty cache.
func NewReader(l Limits) *Reader {
	l.Size = cmp.Or(l.Size, 256<<20)
	l.Connect = cmp.Or(l.Connect, 2*time.Second)
	l.Total = cmp.Or(l.Total, 30*time.Second)
	dialer := &net.Dialer{Timeout: l.Connect}
	return &Reader{
		limits: l,
		client: &http.Client{
			Transport: &http.Transport{DialContext: dialer.DialContext, DisableKeepAlives: true},
			Timeout:   l.Total,
		},
		cache: map[string]Manifest{},
	}
}

// Read reads the manifest of the jar at a file, http or https URL. Every returned error is an *Error. Read blocks for
// at most Limits.Total.
func (r *Reader) Read(ctx context.Context, u *url.URL) (Manifest, error) {
	switch u.Scheme {
	case "file":
		return r.readFile(u.Path)
	case "http", "https":
	default:
		return Manifest{}, &Error{Kind: Other, Detail: "cannot read " + u.Scheme + " URLs"}
	}
	key := u.String()
	r.mu.Lock()
	known, ok := r.cache[key]
	r.mu.Unlock()
	if ok {
		return known, nil
	}
	done := r.flight.DoChan(key, func() (any, error) {
		// All callers share the download, so the context of the first caller does not cancel it. The client has a
		// timeout.
		m, err := r.download(context.WithoutCancel(ctx), key)
		if err == nil {
			r.mu.Lock()
			defer r.mu.Unlock()
			r.cache[key] = m
		}
		return m, err
	})
	select {
	case <-ctx.Done():
		return Manifest{}, &Error{Kind: Other, Detail: "download was canceled", err: ctx.Err()}
	case res := <-done:
		m, _ := res.Val.(Manifest)
		return m, res.Err
	}
}

func (r *Reader) readFile(name string) (Manifest, error) {
	f, err := os.Open(name) //nolint:gosec // the user selects the jar
	if err != nil {
		return Manifest{}, classify(err)
	}
	defer func() { _ = f.Close() }()
	info, err := f.Stat()
	switch {
	case err != nil:
		return Manifest{}, classify(err)
	case info.IsDir():
		return Manifest{}, &Error{Kind: NotFound, Detail: name + " is a directory"}
	case info.Size() > r.limits.Size:
		return Manifest{}, tooLarge(r.limits.Size)
	}
	return parse(f, info.Size())
}

func (r *Reader) download(ctx context.Context, rawURL string) (Manifest, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, rawURL, nil)
	if err != nil {
		return Manifest{}, &Error{Kind: Other, Detail: "requesting jar", err: err}
	}
	resp, err := r.client.Do(req)
	if err != nil {
		return Manifest{}, classify(err)
	}
	defer func() { _ = resp.Body.Close() }()
	switch {
	case resp.StatusCode == http.StatusNotFound || resp.StatusCode == http.StatusGone:
		return Manifest{}, &Error{Kind: NotFound, Detail: Redact(resp.Request.URL)}
	case resp.StatusCode != http.StatusOK:
		return Manifest{}, &Error{Kind: Other, Detail: fmt.Sprintf(
			"Server returned HTTP response code: %d for URL: %s", resp.StatusCode, Redact(resp.Request.URL))}
	}
	body, err := io.ReadAll(io.LimitReader(resp.Body, r.limits.Size+1))
	switch {
	case err != nil:
		return Manifest{}, classify(err)
	case int64(len(body)) > r.limits.Size:
		return Manifest{}, tooLarge(r.limits.Size)
	}
	m, err := parse(bytes.NewReader(body), int64(len(body)))
	var malformed *Error
	if errors.As(err, &malformed) {
		malformed.Answer = fmt.Sprintf(": %s answered %s with content type %.100q", Redact(resp.Request.URL),
			resp.Status, resp.Header.Get("Content-Type"))
	}
	return m, err
}

// Redact returns a URL that is safe in error messages. It replaces the credentials and the query by ***, because the
// query may contain a signature.
func Redact(u *url.URL) string {
	shown := *u
	if shown.User != nil {
		shown.User = url.User("***")
	}
	if shown.RawQuery != "" {
		shown.RawQuery = "***"
	}
	return strings.ReplaceAll(shown.String(), "%2A%2A%2A@", "***@")
}

func tooLarge(limit int64) error {
	return &Error{Kind: Other, Detail: fmt.Sprintf("jar is larger than %d bytes", limit)}
}

// classify returns an *Error that describes an I/O error.
func classify(err error) error {
	var dns *net.DNSError
	var netErr net.Error
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return &Error{Kind: NotFound, Detail: "no such file", err: err}
	case errors.Is(err, syscall.ECONNREFUSED):
		return &Error{Kind: Refused, Detail: "connection refused", err: err}
	case errors.As(err, &dns):
		return &Error{Kind: UnknownHost, Detail: dns.Name, err: err}
	case errors.As(err, &netErr) && netErr.Timeout():
		return &Error{Kind: TimedOut, Detail: "timed out", err: err}
	default:
		return &Error{Kind: Other, Detail: err.Error(), err: err}
	}
}

// maxManifest is the maximum size of a manifest in bytes. Real manifests have a size of a few kilobytes.
const maxManifest = 1 << 20

func parse(r io.ReaderAt, size int64) (Manifest, error) {
	z, err := zip.NewReader(r, size)
	if err != nil {
		return Manifest{}, &Error{Kind: NotZip, Detail: "not a zip archive", err: err}
	}
	f, err := z.Open("META-INF/MANIFEST.MF")
	if err != nil {
		return Manifest{}, &Error{Kind: NotBiz, Detail: "Archive must be a ark biz!"}
	}
	defer func() { _ = f.Close() }()
	text, err := io.ReadAll(io.LimitReader(f, maxManifest))
	var attrs map[string]string
	if err == nil {
		attrs, err = attributes(string(text))
	}
	if err != nil {
		return Manifest{}, &Error{Kind: NotZip, Detail: "manifest cannot be read", err: err}
	}
	m := Manifest{
		Name: attrs["ark-biz-name"], Version: attrs["ark-biz-version"],
		MainClass:      cmp.Or(attrs["start-class"], attrs["main-class"]),
		WebContextPath: attrs["web-context-path"],
		Priority:       DefaultPriority,
	}
	switch {
	case m.Name == "":
		return Manifest{}, &Error{Kind: NotBiz, Detail: "Biz Name must not be empty!"}
	case m.Version == "":
		return Manifest{}, &Error{Kind: NotBiz, Detail: "Biz Version must not be empty!"}
	case m.MainClass == "":
		return Manifest{}, &Error{Kind: NotBiz, Detail: "Biz Main Class must not be empty!"}
	}
	if p := attrs["priority"]; p != "" {
		m.Priority, err = strconv.Atoi(p)
		if err != nil {
			return Manifest{}, &Error{Kind: NotBiz, Detail: fmt.Sprintf("For input string: %.200q", p)}
		}
	}
	return m, nil
}

// attributes returns the main attributes of a manifest, with lower-case keys. An attribute is a line "Key: value". A
// line that begins with a space continues the previous line.
func attributes(text string) (map[string]string, error) {
	text = strings.ReplaceAll(strings.ReplaceAll(text, "\r\n", "\n"), "\n ", "")
	main, _, _ := strings.Cut(strings.TrimLeft(text, "\n"), "\n\n") // the sections of entries follow
	attrs := map[string]string{}
	for line := range strings.Lines(main) {
		key, value, ok := strings.Cut(line, ":")
		if !ok {
			return nil, fmt.Errorf("manifest line %.100q has no colon", line)
		}
		attrs[strings.ToLower(strings.TrimSpace(key))] = strings.TrimSpace(value)
	}
	return attrs, nil
}

package vnode

import (
	"bytes"
	"cmp"
	"compress/gzip"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"sync"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/koupleless/koupsandbox/controller/labels"
)

// installRecord lists the modules that were installed for Pods on a base at a certain time.
type installRecord struct {
	// At is the time of the record in microseconds since 1970. It increases with each record of a base: a controller
	// that takes over a base continues from the last record, even if its clock is behind.
	At int64 `json:"t"`
	// Modules is the text that Options.InstallRecord returned.
	Modules string `json:"l,omitempty"`
}

// installRecordOf returns the install record in the Lease of a Node.
func installRecordOf(l *coordinationv1.Lease) installRecord {
	r := installRecord{Modules: l.Annotations[labels.InstallRecord]}
	if l.Spec.RenewTime != nil {
		r.At = l.Spec.RenewTime.UnixMicro()
	}
	return r
}

const (
	// maxPacked is the maximum size of a journal in bytes. The annotations of an object are limited to 256 KiB.
	maxPacked = 192 << 10
	// orphanPriorityPeriod is how long the record of a base that this controller stopped serving has the same
	// priority as other records in the journal. After this period, the next controller has written the Lease of the
	// Node.
	orphanPriorityPeriod = 10 * time.Minute
)

// pack returns the text of the journal, the records in it, and the bases whose records do not fit. The newest records
// are left out first. The caller holds the lock.
func (j *journal) pack() (text string, included map[string]installRecord, excluded []string) {
	now := j.clock.Now()
	isOld := func(identity string) bool {
		p := j.bases[identity]
		return !p.orphan.IsZero() && now.Sub(p.orphan) > j.timeScale.Of(orphanPriorityPeriod)
	}
	var all []string
	for identity, p := range j.bases {
		switch {
		case p.journaled.At == 0:
		case !p.orphan.IsZero() && now.Sub(p.orphan) > j.timeScale.Of(recordRetention):
			delete(j.bases, identity)
		default:
			all = append(all, identity)
		}
	}
	slices.SortFunc(all, func(a, b string) int {
		if isOld(a) != isOld(b) {
			return map[bool]int{false: -1, true: 1}[isOld(a)]
		}
		return cmp.Compare(j.bases[a].journaled.At, j.bases[b].journaled.At)
	})
	for n := len(all); ; n /= 2 {
		included = make(map[string]installRecord, n)
		for _, identity := range all[:n] {
			included[identity] = j.bases[identity].journaled
		}
		text = pack(included)
		if len(text) <= maxPacked {
			return text, included, all[n:]
		}
	}
}

func pack(entries map[string]installRecord) string {
	if len(entries) == 0 {
		return ""
	}
	var b bytes.Buffer
	z, _ := gzip.NewWriterLevel(&b, gzip.BestSpeed) // the level is valid
	_ = json.NewEncoder(z).Encode(entries)          // never fails for strings and numbers
	_ = z.Close()
	return base64.StdEncoding.EncodeToString(b.Bytes())
}

// maxUnpacked is the maximum decompressed size of a journal in bytes. It protects against a malicious journal that
// another client has written.
const maxUnpacked = 64 << 20

func unpack(text string) (entries map[string]installRecord, err error) {
	if text == "" {
		return nil, nil
	}
	z, err := gzip.NewReader(base64.NewDecoder(base64.StdEncoding, bytes.NewBufferString(text)))
	if err != nil {
		return nil, err
	}
	err = json.NewDecoder(io.LimitReader(z, maxUnpacked)).Decode(&entries)
	return entries, err
}

// otherJournals contains the install records in the journals of other controllers, including stopped controllers. Its
// methods may be called concurrently.
type otherJournals struct {
	mu       sync.Mutex
	listedAt time.Time // start of the last LIST request
	entries  map[string]installRecord
}

// newest returns the newest record of a base in the journals of other controllers; its At is 0 if there is none.
// Concurrent calls share one LIST request, which starts after these calls.
func (j *journal) newest(ctx context.Context, identity string) (installRecord, error) {
	asked := j.clock.Now()
	o := &j.others
	o.mu.Lock()
	defer o.mu.Unlock()
	if !o.listedAt.After(asked) {
		began := j.clock.Now()
		found, err := j.leases.List(ctx, metav1.ListOptions{LabelSelector: journalSelector(j.env)})
		if err != nil {
			return installRecord{}, fmt.Errorf("listing the journals of other controllers: %w", err)
		}
		o.listedAt, o.entries = began, map[string]installRecord{}
		for i := range found.Items {
			l := &found.Items[i]
			if l.Name == j.name() {
				continue
			}
			entries, err := unpack(l.Annotations[labels.InstallRecords])
			if err != nil {
				j.logger.Warn("could not read the journal of another controller; modules that no Pod requests may "+
					"stay installed", "lease", l.Name, "err", err)
			}
			for identity, r := range entries {
				if r.At > o.entries[identity].At {
					o.entries[identity] = r
				}
			}
		}
	}
	return o.entries[identity], nil
}

// ownRecord returns the record of a base in the journal of this controller, including records of an earlier run.
func (j *journal) ownRecord(ctx context.Context, identity string) (installRecord, error) {
	if err := j.load(ctx); err != nil {
		return installRecord{}, err
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	if p := j.bases[identity]; p != nil {
		return p.journaled, nil
	}
	return installRecord{}, nil
}

// journalSelector returns the label selector for the journals of an environment.
func journalSelector(env string) string {
	return labels.Component + "=" + labels.InstallRecordLease + "," + labels.Env + "=" + labelValue(env)
}

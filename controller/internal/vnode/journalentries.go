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

// installRecord is an install record and its time.
type installRecord struct {
	// At is in microseconds since 1970. It grows with each entry of a base: a controller that takes a base over
	// continues from the last one, even if its own clock is behind.
	At      int64  `json:"t"`
	Modules string `json:"l,omitempty"`
}

// onLease returns the entry on the Lease of a Node.
func onLease(l *coordinationv1.Lease) installRecord {
	r := installRecord{Modules: l.Annotations[labels.InstallRecord]}
	if l.Spec.RenewTime != nil {
		r.At = l.Spec.RenewTime.UnixMicro()
	}
	return r
}

const (
	// maxPacked is the maximum size of a journal in bytes. An object may have 256 KiB of annotations.
	maxPacked = 192 << 10
	// orphanPriorityPeriod is when the entry of a base that this controller does not serve any more yields to others: the next
	// controller has written its Lease by then.
	orphanPriorityPeriod = 10 * time.Minute
)

// pack returns the text of the journal, its entries, and the bases for which there is no room: the newest ones. The
// caller holds the lock.
func (j *journal) pack() (text string, in map[string]installRecord, out []string) {
	now := j.clock.Now()
	old := func(identity string) bool {
		p := j.bases[identity]
		return !p.orphan.IsZero() && now.Sub(p.orphan) > j.speed.Of(orphanPriorityPeriod)
	}
	var all []string
	for identity, p := range j.bases {
		switch {
		case p.noted.At == 0:
		case !p.orphan.IsZero() && now.Sub(p.orphan) > j.speed.Of(recordRetention):
			delete(j.bases, identity)
		default:
			all = append(all, identity)
		}
	}
	slices.SortFunc(all, func(a, b string) int {
		if old(a) != old(b) {
			return map[bool]int{false: -1, true: 1}[old(a)]
		}
		return cmp.Compare(j.bases[a].noted.At, j.bases[b].noted.At)
	})
	for n := len(all); ; n /= 2 {
		in = make(map[string]installRecord, n)
		for _, identity := range all[:n] {
			in[identity] = j.bases[identity].noted
		}
		text = pack(in)
		if len(text) <= maxPacked {
			return text, in, all[n:]
		}
	}
}

func pack(entries map[string]installRecord) string {
	if len(entries) == 0 {
		return ""
	}
	var b bytes.Buffer
	z, _ := gzip.NewWriterLevel(&b, gzip.BestSpeed) // the level is valid
	_ = json.NewEncoder(z).Encode(entries)          // strings and numbers, into memory
	_ = z.Close()
	return base64.StdEncoding.EncodeToString(b.Bytes())
}

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

// others has the journals of other controllers, which may have ended. Its methods may be called concurrently.
type others struct {
	mu      sync.Mutex
	asked   time.Time // when the last LIST began
	entries map[string]installRecord
}

// newest returns the newest entry of a base in the journals of other controllers; its At is 0 if there is none. It
// shares a LIST between concurrent calls if the LIST began after they did.
func (j *journal) newest(ctx context.Context, identity string) (installRecord, error) {
	asked := j.clock.Now()
	o := &j.others
	o.mu.Lock()
	defer o.mu.Unlock()
	if !o.asked.After(asked) {
		began := j.clock.Now()
		found, err := j.leases.List(ctx, metav1.ListOptions{LabelSelector: journalSelector(j.env)})
		if err != nil {
			return installRecord{}, fmt.Errorf("reading what other controllers noted: %w", err)
		}
		o.asked, o.entries = began, map[string]installRecord{}
		for i := range found.Items {
			l := &found.Items[i]
			if l.Name == j.name() {
				continue
			}
			entries, err := unpack(l.Annotations[labels.InstallRecords])
			if err != nil {
				j.logger.Warn("could not read what a controller had kept; modules may stay that no Pod wants", "lease",
					l.Name, "err", err)
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

// own returns the entry of a base in the journal of this controller, also from an earlier run.
func (j *journal) own(ctx context.Context, identity string) (installRecord, error) {
	if err := j.load(ctx); err != nil {
		return installRecord{}, err
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	if p := j.bases[identity]; p != nil {
		return p.noted, nil
	}
	return installRecord{}, nil
}

// journalSelector selects the journals of an environment.
func journalSelector(env string) string {
	return labels.Component + "=" + labels.InstallRecordLease + "," + labels.Env + "=" + labelValue(env)
}

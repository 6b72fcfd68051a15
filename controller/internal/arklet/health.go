package arklet

import (
	"fmt"
	"time"
)

// Unlimited is the metaspace maximum without -XX:MaxMetaspaceSize.
const Unlimited = -1

// longestRun is the maximum run time, because a longer one does not fit in a time.Duration.
const longestRun = 200 * 365 * 24 * time.Hour

// Health contains the used fields of a health document (protocol 7).
type Health struct {
	// MetaspaceUsed, MetaspaceCommitted and MetaspaceMax are in bytes. They are Unlimited if the base does not report a
	// value.
	MetaspaceUsed, MetaspaceCommitted, MetaspaceMax int64
	// CPUs is the number of logical CPUs; 0 if it was not sent.
	CPUs int
	// RunTime is how long the JVM has been running. If it decreases, the JVM has restarted.
	RunTime time.Duration
	// MasterActive reports whether the base itself is activated.
	MasterActive bool
}

// DecodeHealth decodes the data of a base/health message, or the body of an HTTP answer.
func DecodeHealth(body []byte) (Health, error) {
	var w struct {
		Code    string `json:"code"`
		Message string `json:"message"`
		Data    struct {
			HealthData struct {
				JVM *struct {
					Used      *int64  `json:"java used metaspace"`
					Committed *int64  `json:"java committed metaspace"`
					Max       *int64  `json:"java max metaspace"`
					RunTime   float64 `json:"run time(s)"`
				} `json:"jvm"`
				CPU struct {
					Count int `json:"count"`
				} `json:"cpu"`
				Master struct {
					State string `json:"bizState"`
				} `json:"masterBizInfo"`
			} `json:"healthData"`
		} `json:"data"`
	}
	if err := decode(body, &w); err != nil {
		return Health{}, err
	}
	if w.Code != CodeSuccess {
		return Health{}, fmt.Errorf("the base answered health with the code %.80q: %s", w.Code, Text(w.Message))
	}
	jvm := w.Data.HealthData.JVM
	if jvm == nil {
		return Health{}, fmt.Errorf("the health document has no jvm field")
	}
	return Health{
		MetaspaceUsed:      orUnlimited(jvm.Used),
		MetaspaceCommitted: orUnlimited(jvm.Committed),
		MetaspaceMax:       orUnlimited(jvm.Max),
		CPUs:               max(w.Data.HealthData.CPU.Count, 0),
		RunTime:            time.Duration(min(max(jvm.RunTime, 0), longestRun.Seconds()) * float64(time.Second)),
		MasterActive:       ParseState(w.Data.HealthData.Master.State) == StateActivated,
	}, nil
}

func orUnlimited(v *int64) int64 {
	if v == nil || *v < 0 {
		return Unlimited
	}
	return *v
}

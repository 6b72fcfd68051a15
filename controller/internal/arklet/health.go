package arklet

import (
	"fmt"
	"time"
)

// Unlimited is the metaspace maximum of a JVM without -XX:MaxMetaspaceSize.
const Unlimited = -1

// longestRun is the maximum run time that fits in a time.Duration.
const longestRun = 200 * 365 * 24 * time.Hour

// Health contains the fields of a health document that the controller uses (protocol 7).
type Health struct {
	// MetaspaceUsed, MetaspaceCommitted and MetaspaceMax are in bytes. A value that the base does not report is
	// Unlimited.
	MetaspaceUsed, MetaspaceCommitted, MetaspaceMax int64
	// CPUs is the number of logical CPUs; 0 if the base did not send it.
	CPUs int
	// RunTime is the time since the JVM started. If it decreases between two reports, the JVM has restarted.
	RunTime time.Duration
	// State is the state of the base itself; StateUnresolved if the base did not send it. A deactivated base is out of
	// service.
	State State
}

// DecodeHealth decodes the data of a base/health message, or the body of an HTTP response.
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
		return Health{}, fmt.Errorf("the base answered health with the code %.80q: %s", w.Code, SanitizeText(w.Message))
	}
	jvm := w.Data.HealthData.JVM
	if jvm == nil {
		return Health{}, fmt.Errorf("the answer to health has no jvm field")
	}
	return Health{
		MetaspaceUsed:      orUnlimited(jvm.Used),
		MetaspaceCommitted: orUnlimited(jvm.Committed),
		MetaspaceMax:       orUnlimited(jvm.Max),
		CPUs:               max(w.Data.HealthData.CPU.Count, 0),
		RunTime:            time.Duration(min(max(jvm.RunTime, 0), longestRun.Seconds()) * float64(time.Second)),
		State:              ParseState(w.Data.HealthData.Master.State),
	}, nil
}

func orUnlimited(v *int64) int64 {
	if v == nil || *v < 0 {
		return Unlimited
	}
	return *v
}

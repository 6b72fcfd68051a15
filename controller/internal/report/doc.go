// Package report tells people about failures: it posts events as DingTalk messages to web hooks
// (Module Controller V2 document 5.4, REPORT_HOOKS).
//
//	report.go   Options, New, Report, Start: a bounded queue and a sender for each hook
//	hook.go     one hook: rate limit, retries, what an answer means
//	message.go  Event and its DingTalk form
//
// Report never blocks. What a hook does not take in time is dropped, counted and, once a minute,
// logged: a hook that is slow or dead costs neither the controller nor the other hooks anything. A
// hook's address holds its token, so logs and errors name the host alone.
package report

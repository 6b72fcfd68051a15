// Package report tells people about failures: it posts events as DingTalk messages to web hooks
// (Module Controller V2 document 5.4, REPORT_HOOKS).
//
//	report.go   Options, New, Report, Start: a bounded queue and a sender for each hook
//	hook.go     one hook: rate limit, retries
//	robot.go    its address: signature, what an answer means, what must not be said
//	message.go  Event and its DingTalk form
//
// Report never blocks. What a hook does not take in time is dropped, counted and, once a minute,
// logged: a hook that is slow or dead costs neither the controller nor the other hooks anything. A
// hook's address holds its token, so logs and errors name the host alone, and redirects are not
// followed. What bases say shows in a message as text, whatever it is.
package report

package broker

// WithInflight has clients leave so many messages unacknowledged at most.
func (o Options) WithInflight(most uint16) Options {
	o.inflight = most
	return o
}

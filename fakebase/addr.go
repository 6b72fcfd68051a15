package fakebase

// HTTPAddr is host:port of the arklet HTTP server, or of the last one while no
// process runs; empty = there has been none.
func (b *Base) HTTPAddr() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.httpAddr
}

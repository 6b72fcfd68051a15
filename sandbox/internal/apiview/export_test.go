package apiview

// Watches is how many watches go through the proxy.
func (p *Proxy) Watches() int {
	p.rules.mu.Lock()
	defer p.rules.mu.Unlock()
	return len(p.rules.streams)
}

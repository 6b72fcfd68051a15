package report

// texts assigns an index to each distinct text, so that the page stores each text only once.
type texts struct {
	list []string
	ids  map[string]int
}

func newTexts() *texts {
	t := &texts{ids: map[string]int{}}
	t.id("") // index 0 is the empty text
	return t
}

func (t *texts) id(text string) int {
	id, ok := t.ids[text]
	if !ok {
		id = len(t.list)
		t.ids[text] = id
		t.list = append(t.list, text)
	}
	return id
}

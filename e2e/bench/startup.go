package main

import "context"

// Targets of an up and a down, in seconds.
const (
	upSmallTarget = 4
	upLargeTarget = 10
	downTarget    = 1
)

func small(ctx context.Context, b *bench) error {
	took, err := b.upTime(ctx, 10)
	if err != nil {
		return err
	}
	b.judge("up, 10 bases", took, "s", upSmallTarget)
	if took, err = b.downTime(ctx); err != nil {
		return err
	}
	b.judge("down, 10 bases", took, "s", downTarget)
	return nil
}

func large(ctx context.Context, b *bench) error {
	took, err := b.upTime(ctx, b.bases())
	if err != nil {
		return err
	}
	b.judgeScale("up, all Nodes Ready", took, "s", upLargeTarget)
	if took, err = b.downTime(ctx); err != nil {
		return err
	}
	b.note("down", took, "s")
	return nil
}

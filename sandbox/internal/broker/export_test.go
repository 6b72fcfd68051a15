package broker

// MaxInflight is how many messages a client may leave unacknowledged.
const MaxInflight = maxInflight

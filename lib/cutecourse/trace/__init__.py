"""What an emulated launch did: events, the recorder that collects them, and queries."""

"""HTTP/1.1 as the simulator speaks it: requests read, responses played with their faults."""

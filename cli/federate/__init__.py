"""`medsynth federate`: fits over several sites that keep their rows."""

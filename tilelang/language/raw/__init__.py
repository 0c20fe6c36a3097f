"""The forms of TIR: what lies below the language, for programs written in its terms."""

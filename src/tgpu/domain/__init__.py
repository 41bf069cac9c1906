"""The nouns of tgpu and their legal moves: frozen data, standard library only."""

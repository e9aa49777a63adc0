# Read by gpt.py.
init_from = "auto"
batch_size = 4
n_layer = 2

# SPDX-License-Identifier: MIT
"""The training loop of `darner train fashion-mnist` in PyTorch: the networks of --model mlp and cnn, batch 64, Adam, inputs
(byte / 255 - 0.286) / 0.353, the data set on the card, batches gathered inside the step. Eagerly, and 20 steps in one CUDA graph:
microseconds a step, images per second and the loss of the last step.

    python3 bench/fashion_mnist_torch.py mlp|cnn [FOLDER]

FOLDER holds Fashion-MNIST's .gz files; without it images and labels are random, which costs the same and learns little."""
import gzip
import sys
import time

import torch

STEPS, BATCH, ROUNDS = 20, 64, 45
IMAGES, PIXELS, CLASSES = 60000, 784, 10


def idx_bytes(path, header):
    with gzip.open(path) as file:
        return torch.frombuffer(bytearray(file.read()[header:]), dtype=torch.uint8)


def training_set(folder):
    if folder is None:
        return torch.randint(0, 256, (IMAGES, PIXELS), dtype=torch.uint8), torch.randint(0, CLASSES, (IMAGES,))
    images = idx_bytes(f"{folder}/train-images-idx3-ubyte.gz", 16).reshape(IMAGES, PIXELS)
    return images, idx_bytes(f"{folder}/train-labels-idx1-ubyte.gz", 8).long()


def network(name):
    nn = torch.nn
    if name == "mlp":
        return nn.Sequential(nn.Linear(PIXELS, 256), nn.ReLU(), nn.Linear(256, CLASSES))
    layers = [nn.Unflatten(1, (1, 28, 28))]
    for inputs, outputs in [(1, 16), (16, 32)]:
        layers += [nn.Conv2d(inputs, outputs, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2)]
    return nn.Sequential(*layers, nn.Flatten(), nn.Linear(32 * 7 * 7, CLASSES))


class Training:
    def __init__(self, name, images, labels):
        self.model = network(name).cuda()
        self.optimizer = torch.optim.Adam(self.model.parameters(), lr=1e-3, fused=True, capturable=True)
        self.images, self.labels = images.cuda(), labels.cuda()
        self.order = torch.randperm(IMAGES, device="cuda")
        self.position = torch.zeros((), dtype=torch.long, device="cuda")
        self.offsets = torch.arange(BATCH, device="cuda")
        self.loss = torch.zeros((), device="cuda")

    def step(self):
        index = self.order[self.position + self.offsets]
        inputs = (self.images[index].float() / 255 - 0.286) / 0.353
        loss = torch.nn.functional.cross_entropy(self.model(inputs), self.labels[index])
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()
        self.optimizer.step()
        self.loss.copy_(loss.detach())
        self.position.copy_((self.position + BATCH) % (IMAGES // BATCH * BATCH))


def timed(run, steps):
    """Seconds a step: the median of seven measurements."""
    for _ in range(10):
        run()
    torch.cuda.synchronize()
    times = []
    for _ in range(7):
        start = time.perf_counter()
        for _ in range(ROUNDS):
            run()
        torch.cuda.synchronize()
        times.append((time.perf_counter() - start) / (ROUNDS * steps))
    return sorted(times)[3]


def report(name, training, seconds):
    print(f"{name:<24} {seconds * 1e6:8.1f} us a step  {BATCH / seconds:12,.0f} images/s  final loss {training.loss.item():.4f}")


def graph_of(training, steps):
    """`steps` steps as one CUDA graph; capture wants them warmed up on a stream of their own."""
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for _ in range(3):
            training.step()
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for _ in range(steps):
            training.step()
    return graph


def main():
    torch.manual_seed(0)
    print(torch.cuda.get_device_name(), "PyTorch", torch.__version__)
    if len(sys.argv) < 2 or sys.argv[1] not in ("mlp", "cnn"):
        sys.exit(__doc__)
    torch.backends.cudnn.benchmark = True
    name = sys.argv[1]
    images, labels = training_set(sys.argv[2] if len(sys.argv) > 2 else None)
    training = Training(name, images, labels)
    report("eager", training, timed(training.step, 1))
    training = Training(name, images, labels)
    report(f"CUDA graph of {STEPS} steps", training, timed(graph_of(training, STEPS).replay, STEPS))


if __name__ == "__main__":
    main()

# SPDX-License-Identifier: MIT
"""The network of `darner train fashion-mnist` in PyTorch: 784-128-10, batch 64, Adam, the data set on the card, 20 steps in
one CUDA graph. Prints microseconds a step and images per second, beside eager and torch.compile without graphs."""
import time

import torch

STEPS, BATCH, ROUNDS = 20, 64, 45


def build():
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(784, 128), torch.nn.ReLU(), torch.nn.Linear(128, 10)).cuda()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3, fused=True, capturable=True)
    images = torch.randint(0, 256, (60000, 784), dtype=torch.uint8, device="cuda")
    labels = torch.randint(0, 10, (60000,), device="cuda")
    order = torch.randperm(60000, device="cuda")
    position = torch.zeros((), dtype=torch.long, device="cuda")
    offsets = torch.arange(BATCH, device="cuda")

    def step():
        index = order[position + offsets]
        loss = torch.nn.functional.cross_entropy(model(images[index].float() / 255), labels[index])
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
        position.copy_((position + BATCH) % (60000 // BATCH * BATCH))

    return step


def timed(run, steps):
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


def report(name, seconds):
    print(f"{name:<28} {seconds * 1e6:8.1f} us a step  {BATCH / seconds:12,.0f} images/s")


def main():
    print(torch.cuda.get_device_name(), "PyTorch", torch.__version__)
    step = build()
    report("eager", timed(step, 1))
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        for _ in range(3):
            step()
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for _ in range(STEPS):
            step()
    report(f"CUDA graph of {STEPS} steps", timed(graph.replay, STEPS))


if __name__ == "__main__":
    main()

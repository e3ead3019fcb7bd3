// SPDX-License-Identifier: MIT
#include "darner/plan/dependence.h"

#include "darner/base/check.h"

#include <algorithm>

namespace darner::plan {

namespace {

struct Toucher {
    uint32_t task = 0;
    kir::Access access = kir::Access::read;
    uint64_t begin = 0, end = UINT64_MAX;  // of the buffer's bytes
    bool meets(const Toucher& other) const { return begin < other.end && other.begin < end; }
    bool writes() const { return access != kir::Access::read; }
    bool reads() const { return access != kir::Access::write; }
};

class Maker {
public:
    explicit Maker(const EntryPlan& plan) : plan_(plan), touchers_(plan.buffers.size()) {
        const size_t items = plan.tasks.size() + plan.copies.size();
        out_.before.resize(items);
        out_.after.resize(items);
        out_.touches.resize(items);
        out_.touched_by.resize(plan.buffers.size());
    }

    Dependence run() {
        for (uint32_t t = 0; t < plan_.tasks.size(); ++t)
            for (const Use& use : plan_.tasks[t].uses)
                for (BufferId buffer : use.covered) {
                    const bool part = use.bytes != 0;
                    touchers_[buffer.value].push_back(
                        {t, use.access, part ? use.offset : 0, part ? use.offset + use.bytes : UINT64_MAX});
                    touch(t, buffer);
                }
        for (uint32_t t = 0; t < plan_.tasks.size(); ++t)
            for (TaskId before : plan_.tasks[t].after) edge(before.value, t);
        for (uint32_t b = 0; b < touchers_.size(); ++b)
            // State that is overwritten in this step is read before: the writer has its readers in `after`.
            if (plan_.buffers[b].kind != SegmentKind::state) order_touchers(touchers_[b]);
        for (uint32_t c = 0; c < plan_.copies.size(); ++c) order_copy(c);
        for (auto* lists : {&out_.before, &out_.after, &out_.touches, &out_.touched_by})
            for (std::vector<uint32_t>& list : *lists) {
                std::sort(list.begin(), list.end());
                list.erase(std::unique(list.begin(), list.end()), list.end());
            }
        sort_items();
        return std::move(out_);
    }

private:
    void edge(uint32_t before, uint32_t after) {
        if (before == after) return;
        out_.before[after].push_back(before);
        out_.after[before].push_back(after);
    }

    void touch(uint32_t item, BufferId buffer) {
        if (plan_.buffers[buffer.value].placed) return;
        out_.touches[item].push_back(buffer.value);
        out_.touched_by[buffer.value].push_back(item);
    }

    bool waits_for(uint32_t task, uint32_t other) const {
        const std::vector<TaskId>& after = plan_.tasks[task].after;
        return std::find(after.begin(), after.end(), TaskId(other)) != after.end();
    }

    void order_touchers(const std::vector<Toucher>& touchers) {
        for (const Toucher& writer : touchers)
            for (const Toucher& reader : touchers) {
                // Parts of one in-place task whose windows touch: any order does.
                if (writer.reads() && reader.writes() && writer.task > reader.task) continue;
                if (writer.writes() && reader.reads() && writer.meets(reader) &&
                    !(writer.reads() && waits_for(writer.task, reader.task)))
                    edge(writer.task, reader.task);
            }
    }

    void order_copy(uint32_t copy) {
        const auto item = [&](uint32_t c) { return static_cast<uint32_t>(plan_.tasks.size()) + c; };
        const CopyTask& task = plan_.copies[copy];
        touch(item(copy), task.source);
        touch(item(copy), task.target);
        for (const Toucher& toucher : touchers_[task.source.value])
            if (toucher.writes()) edge(toucher.task, item(copy));
        for (const Toucher& toucher : touchers_[task.target.value]) edge(toucher.task, item(copy));
        for (uint32_t c = 0; c < copy; ++c) {
            const CopyTask& other = plan_.copies[c];
            if (other.source == task.target || other.target == task.source || other.target == task.target)
                edge(item(c), item(copy));
        }
    }

    void sort_items() {
        std::vector<size_t> waiting(out_.items());
        for (uint32_t i = 0; i < out_.items(); ++i) {
            waiting[i] = out_.before[i].size();
            if (waiting[i] == 0) out_.order.push_back(i);
        }
        for (size_t done = 0; done < out_.order.size(); ++done)
            for (uint32_t next : out_.after[out_.order[done]])
                if (--waiting[next] == 0) out_.order.push_back(next);
        CHECK(out_.order.size() == out_.items(), "the plan's tasks depend on each other in a circle");
    }

    const EntryPlan& plan_;
    std::vector<std::vector<Toucher>> touchers_;  // by buffer
    Dependence out_;
};

}  // namespace

Dependence dependence_of(const EntryPlan& plan) { return Maker(plan).run(); }

}  // namespace darner::plan

// SPDX-License-Identifier: MIT
#include "darner/kernels/attention.h"

#include "darner/kernels/attention_shape.h"

#include <algorithm>

namespace darner::kernels {

using kir::Builder;
using kir::Expr;
using Values = Builder::Values;

namespace {

// A finite start of maxima, below or equal to every score.
constexpr float lowest = -3.4028234663852886e38f;

// A query or a key: where it is read (within its count), and whether it is one; an invalid `inside` is yes.
struct Query {
    Expr head, place, inside;
};
struct Key {
    Expr place, inside;
};

struct Score {
    Expr value;    // with scale, cap and mask
    Expr visible;  // invalid: yes
    Expr slope;    // of the cap; invalid: 1
};

// What a query and a key make of their product: everything but the sums.
class Scores {
public:
    Scores(Builder& b, const AttentionSpec& spec, Expr batch) : b_(b), spec_(spec), batch_(batch), position_(b.i32(0)) {
        if (spec.position) position_ = b.max(b.min(spec.position(b, batch), b.i32(1 << 29)), b.i32(-(1 << 29)));
    }

    Score score(const Query& query, const Key& key, Expr product) {
        Score s;
        s.value = product * spec_.scale;
        if (spec_.soft_cap > 0) {
            const Expr t = b_.tanh(s.value * (1 / spec_.soft_cap));
            s.value = t * spec_.soft_cap;
            s.slope = 1 - t * t;
        }
        also(s, query.inside);
        also(s, key.inside);
        if (spec_.causal || spec_.window > 0) {
            const Expr ahead = b_.bitcast(key.place, kir::Scalar::i32) - b_.bitcast(query.place, kir::Scalar::i32) - position_;
            if (spec_.causal) also(s, ahead <= 0);
            if (spec_.window > 0) also(s, ahead > -static_cast<int32_t>(window()));
            if (spec_.window > 0 && !spec_.causal) also(s, ahead < static_cast<int32_t>(window()));
        }
        if (spec_.mask) {
            const Expr mask = spec_.mask(b_, batch_, query.head, query.place, key.place);
            if (mask.type().scalar == kir::Scalar::boolean) {
                also(s, mask);
            } else {
                also(s, b_.bitcast(mask, kir::Scalar::u32) != 0xff800000u);  // minus infinity
                s.value = s.value + mask;
            }
        }
        return s;
    }

    // exp(score - largest), 0 where the key is not visible.
    Expr exponential(const Score& s, Expr largest) {
        const Expr e = b_.exp(s.value - largest);
        return s.visible.valid() ? b_.select(s.visible, e, b_.f32(0)) : e;
    }

    Expr dropped(const Query& query, const Key& key, Expr weight) {
        if (spec_.dropout <= 0) return weight;
        const Expr bits = spec_.bits(b_, batch_, query.head, query.place, key.place);
        const Expr keeps = b_.convert(bits >> 8, kir::Scalar::f32) >= spec_.dropout * 0x1p24f;
        const float grown = spec_.dropout < 1 ? 1 / (1 - spec_.dropout) : 0;
        return b_.select(keeps, weight * grown, b_.f32(0));
    }

    struct Range {
        Expr low, high;
    };
    // The keys that some query of first .. last may see, and the queries that may see some key of first .. last.
    Range keys_of(Expr first, Expr last) {
        Expr low = b_.i32(0), high = b_.i32(static_cast<int32_t>(spec_.keys));
        const Expr begin = b_.bitcast(first, kir::Scalar::i32) + position_, end = b_.bitcast(last, kir::Scalar::i32) + position_;
        if (spec_.window > 0) low = begin - static_cast<int32_t>(window()) + 1;
        if (spec_.causal)
            high = end + 1;
        else if (spec_.window > 0)
            high = end + static_cast<int32_t>(window());
        return clamped(low, high, spec_.keys);
    }
    Range queries_of(Expr first, Expr last) {
        Expr low = b_.i32(0), high = b_.i32(static_cast<int32_t>(spec_.queries));
        const Expr begin = b_.bitcast(first, kir::Scalar::i32) - position_, end = b_.bitcast(last, kir::Scalar::i32) - position_;
        if (spec_.window > 0) high = end + static_cast<int32_t>(window());
        if (spec_.causal)
            low = begin;
        else if (spec_.window > 0)
            low = begin - static_cast<int32_t>(window()) + 1;
        return clamped(low, high, spec_.queries);
    }

private:
    // Larger ones reach everywhere; sums with positions and lengths stay within an i32.
    uint32_t window() const { return std::min(spec_.window, 1u << 30); }

    void also(Score& s, Expr test) {
        if (test.valid()) s.visible = s.visible.valid() ? s.visible & test : test;
    }
    Range clamped(Expr low, Expr high, uint32_t count) {
        const Expr none = b_.i32(0), all = b_.i32(static_cast<int32_t>(count));
        const auto inside = [&](Expr v) {
            return b_.assume_max(b_.bitcast(b_.min(b_.max(v, none), all), kir::Scalar::u32), count);
        };
        return {inside(low), inside(high)};
    }

    Builder& b_;
    const AttentionSpec& spec_;
    Expr batch_, position_;
};

// The passes, written once over the steps in which the two forms differ. Scores, weights and sums of an invocation are `rows` by
// `cols` (or by `columns`) values, row by row.
class AttentionBuilder {
public:
    AttentionBuilder(Builder& b, const AttentionSpec& spec, const AttentionShape& shape)
        : b_(b), spec_(spec), shape_(shape), rows_(shape.rows), cols_(shape.cols) {
        // CPU drivers run neighbours along the first axis in the lanes of a vector.
        if (shape.staged)
            b.workgroup_size(shape.threads_x, shape.threads_y);
        else
            b.workgroup_size(shape.threads_y);
        const Expr workgroup = linear_workgroup(b, shape.grid);
        // A grid folded with a few workgroups too many: those repeat the last one's work and store nothing.
        if (!shape.grid.exact()) real_ = workgroup < shape.grid.used;
        Expr id = b.min(workgroup, b.u32(shape.grid.used - 1));
        const uint32_t tiles = static_cast<uint32_t>(ceil_div(owned_count(spec), shape.owned()));
        first_ = id % tiles * shape.owned();
        chunk_ = id / tiles % shape.chunks;
        kv_head_ = id / (tiles * shape.chunks) % spec.kv_heads;
        batch_ = id / (tiles * shape.chunks * spec.kv_heads);
        x_ = shape.staged ? b.local_id(0) : b.u32(0);
        y_ = b.local_id(shape.staged ? 1 : 0);
        scores_.emplace(b, spec, batch_);
    }
    virtual ~AttentionBuilder() = default;

    void build() {
        switch (spec_.pass) {
            case AttentionPass::forward: return forward();
            case AttentionPass::query_gradient: return query_gradient();
            case AttentionPass::key_gradient: return key_gradient();
        }
    }

protected:
    // An operand of one side: the element of a query or key of this workgroup, by its number there.
    using Load = std::function<Expr(Expr place, Expr feature)>;
    struct Side {
        Load owned, other;
        uint32_t features;
    };

    // The products of owned rows with the tile of the other side.
    virtual Values product(const Side& side) = 0;
    // Hands weights to the weighted sum of that number.
    virtual void put(uint32_t sum, const Values& weights) = 0;
    virtual Values add_weighted(uint32_t sum, Values sums, const Load& values, uint32_t width) = 0;
    // Over all cols of a row, from those of an invocation.
    virtual Values row_maxima(Values mine) = 0;
    virtual Values row_sums(Values mine) = 0;
    virtual Expr owned(uint32_t row) = 0;
    virtual Expr other(uint32_t col) = 0;
    virtual Expr column(uint32_t c) = 0;
    virtual Expr stores_rows_here() { return {}; }  // the one invocation of a row that stores its numbers; invalid: this

    Expr zero() { return b_.f32(0); }
    Values zeros(uint32_t count) { return Values(count, zero()); }
    Expr clamp(Expr v, uint32_t count) { return b_.min(v, b_.u32(count - 1)); }
    Expr inside(Expr v, uint32_t count) { return b_.max_of(v) < count ? Expr{} : v < count; }
    uint32_t sums() const { return rows_ * shape_.columns; }

    // Query heads that share a key head follow each other: number r of `group` * queries.
    Query query_of(Expr number) {
        const uint32_t count = spec_.group * spec_.queries;
        const Expr r = clamp(number, count);
        return {kv_head_ * spec_.group + r / spec_.queries, r % spec_.queries, inside(number, count)};
    }
    Key key_of(Expr number) { return {clamp(number, spec_.keys), inside(number, spec_.keys)}; }

    Load of_query(const AttentionSpec::Element& element) {
        return [this, &element](Expr number, Expr feature) {
            const Query query = query_of(number);
            return element(b_, batch_, query.head, query.place, feature);
        };
    }
    Load of_key(const AttentionSpec::Element& element) {
        return [this, &element](Expr number, Expr feature) {
            return element(b_, batch_, kv_head_, clamp(number, spec_.keys), feature);
        };
    }
    // Of the query of that number under the head that the loop is at.
    Load of_head_query(const AttentionSpec::Element& element) {
        return [this, &element](Expr number, Expr feature) {
            return element(b_, batch_, head_, clamp(number, spec_.queries), feature);
        };
    }

    // Runs body for the tiles of the other side that meet low .. high. Bounds that come from memory are not uniform in the eyes
    // of targets, and barriers stand in the body: then all tiles run, and those without use load nothing (`active_`).
    Values over_tiles(Scores::Range range, uint32_t count, Values init, const std::function<Values(const Values&)>& body) {
        const uint32_t tile = shape_.tile(), tiles = static_cast<uint32_t>(ceil_div(count, tile));
        const bool loaded = shape_.staged && spec_.position;
        const Expr low = loaded ? b_.u32(0) : range.low / tile;
        const Expr high = loaded ? b_.u32(tiles) : b_.min((range.high + (tile - 1)) / tile, b_.u32(tiles));
        return b_.loop(low, high, b_.u32(1), std::move(init), [&](Expr index, const Values& carried) {
            start_ = b_.assume_max(index, tiles - 1) * tile;
            active_ = {};
            if (loaded) active_ = (start_ < range.high) & (start_ + tile > range.low);
            return body(carried);
        });
    }

    void forward() {
        const uint32_t count = spec_.group * spec_.queries;
        const Side scored{of_query(spec_.q), of_key(spec_.k), spec_.depth};
        Values init(rows_, b_.f32(lowest));
        for (const Expr& sum : zeros(rows_ + (spec_.y ? sums() : 0))) init.push_back(sum);
        const Values end = over_tiles(visible_keys(count), spec_.keys, init,
                                      [&](const Values& carried) { return forward_tile(scored, carried); });
        const Values totals = row_sums(Values(end.begin() + rows_, end.begin() + 2 * rows_));
        for (uint32_t i = 0; i < rows_; ++i) {
            const Query query = query_of(owned(i));
            if (spec_.numbers) store_numbers(query, b_.select(totals[i] == 0, zero(), end[i]), totals[i]);
            if (!spec_.y) continue;
            const Expr scale = 1 / b_.select(totals[i] == 0, b_.f32(1), totals[i]);
            for (uint32_t c = 0; c < shape_.columns; ++c)
                store(spec_.y, query.head, query.place, query.inside, c, spec_.width,
                      end[2 * rows_ + i * shape_.columns + c] * scale);
        }
    }

    Values forward_tile(const Side& scored, const Values& carried) {
        const Values products = product(scored);
        std::vector<Score> scores;
        std::vector<Query> queries;
        std::vector<Key> keys;
        Values mine;
        for (uint32_t j = 0; j < cols_; ++j) keys.push_back(key_of(other(j)));
        for (uint32_t i = 0; i < rows_; ++i) {
            queries.push_back(query_of(owned(i)));
            Expr most = b_.f32(lowest);
            for (uint32_t j = 0; j < cols_; ++j) {
                scores.push_back(scores_->score(queries[i], keys[j], products[i * cols_ + j]));
                const Score& s = scores.back();
                most = b_.max(most, s.visible.valid() ? b_.select(s.visible, s.value, b_.f32(lowest)) : s.value);
            }
            mine.push_back(most);
        }
        const Values tile_maxima = row_maxima(mine);
        Values next(carried.size()), weights;
        for (uint32_t i = 0; i < rows_; ++i) {
            next[i] = b_.max(carried[i], tile_maxima[i]);
            const Expr shrink = b_.exp(carried[i] - next[i]);
            Expr total = carried[rows_ + i] * shrink;
            for (uint32_t j = 0; j < cols_; ++j) {
                const Expr e = scores_->exponential(scores[i * cols_ + j], next[i]);
                total = total + e;
                if (spec_.y) weights.push_back(scores_->dropped(queries[i], keys[j], e));
            }
            next[rows_ + i] = total;
            for (uint32_t c = 0; spec_.y && c < shape_.columns; ++c) {
                const size_t at = 2 * rows_ + i * shape_.columns + c;
                next[at] = carried[at] * shrink;
            }
        }
        if (!spec_.y) return next;
        put(0, weights);
        const Values summed = add_weighted(0, Values(next.begin() + 2 * rows_, next.end()), of_key(spec_.v), spec_.width);
        std::copy(summed.begin(), summed.end(), next.begin() + 2 * rows_);
        return next;
    }

    // The queries of this workgroup are neighbours, unless they belong to several heads.
    Scores::Range visible_keys(uint32_t count) {
        const Expr first = first_, last = clamp(first_ + (shape_.owned() - 1), count);
        const Expr one_head = first / spec_.queries == last / spec_.queries;
        return scores_->keys_of(b_.select(one_head, first % spec_.queries, b_.u32(0)),
                                b_.select(one_head, last % spec_.queries, b_.u32(spec_.queries - 1)));
    }

    struct Numbers {
        Expr largest, scale, delta;  // scale: one over the sum of exponentials
    };
    Numbers numbers_of(const Query& query) {
        const auto number = [&](uint32_t which) { return spec_.rows(b_, batch_, query.head, query.place, b_.u32(which)); };
        const Expr total = number(1);
        return {number(0), 1 / b_.select(total == 0, b_.f32(1), total), number(2)};
    }

    // From a weight and the product of dy with v: the cotangent of the product of q with k.
    Expr product_gradient(const Query& query, const Key& key, const Score& s, const Numbers& n, Expr weight, Expr dy_v) {
        const Expr of_score = weight * (scores_->dropped(query, key, dy_v) - n.delta);
        return (s.slope.valid() ? of_score * s.slope : of_score) * spec_.scale;
    }

    void query_gradient() {
        const uint32_t count = spec_.group * spec_.queries;
        const Side scored{of_query(spec_.q), of_key(spec_.k), spec_.depth},
            weighed{of_query(spec_.dy), of_key(spec_.v), spec_.width};
        std::vector<Query> queries;
        std::vector<Numbers> numbers;
        for (uint32_t i = 0; i < rows_; ++i) {
            queries.push_back(query_of(owned(i)));
            numbers.push_back(numbers_of(queries[i]));
        }
        const Values end = over_tiles(visible_keys(count), spec_.keys, zeros(sums()), [&](const Values& carried) {
            const Values products = product(scored), dy_v = product(weighed);
            Values gradients;
            for (uint32_t i = 0; i < rows_; ++i)
                for (uint32_t j = 0; j < cols_; ++j) {
                    const Key key = key_of(other(j));
                    const Score s = scores_->score(queries[i], key, products[i * cols_ + j]);
                    const Expr weight = scores_->exponential(s, numbers[i].largest) * numbers[i].scale;
                    gradients.push_back(product_gradient(queries[i], key, s, numbers[i], weight, dy_v[i * cols_ + j]));
                }
            put(0, gradients);
            return add_weighted(0, carried, of_key(spec_.k), spec_.depth);
        });
        for (uint32_t i = 0; i < rows_; ++i)
            for (uint32_t c = 0; c < shape_.columns; ++c)
                store(spec_.dq, queries[i].head, queries[i].place, queries[i].inside, c, spec_.depth,
                      end[i * shape_.columns + c]);
    }

    void key_gradient() {
        const Side scored{of_key(spec_.k), of_head_query(spec_.q), spec_.depth};
        const Side weighed{of_key(spec_.v), of_head_query(spec_.dy), spec_.width};
        const Scores::Range range = scores_->queries_of(first_, clamp(first_ + (shape_.owned() - 1), spec_.keys));
        const Values end = b_.loop(
            b_.u32(0), b_.u32(spec_.group), b_.u32(1), zeros(results_of(spec_) * sums()), [&](Expr member, const Values& so_far) {
                head_ = kv_head_ * spec_.group + b_.assume_max(member, spec_.group - 1);
                return over_tiles(range, spec_.queries, so_far,
                                  [&](const Values& carried) { return key_tile(scored, weighed, carried); });
            });
        for (uint32_t i = 0; i < rows_; ++i) {
            const Key key = key_of(owned(i));
            for (uint32_t c = 0; c < shape_.columns; ++c) {
                const size_t at = i * shape_.columns + c;
                if (spec_.dv) store(spec_.dv, kv_head_, key.place, key.inside, c, spec_.width, end[at]);
                if (spec_.dk) store(spec_.dk, kv_head_, key.place, key.inside, c, spec_.depth, end[(spec_.dv ? sums() : 0) + at]);
            }
        }
    }

    // Sums of dv come first.
    Values key_tile(const Side& scored, const Side& weighed, const Values& carried) {
        const Values products = product(scored), dy_v = spec_.dk ? product(weighed) : Values{};
        std::vector<Query> queries;
        std::vector<Numbers> numbers;
        for (uint32_t j = 0; j < cols_; ++j) {
            const Expr number = other(j);
            queries.push_back({head_, clamp(number, spec_.queries), inside(number, spec_.queries)});
            numbers.push_back(numbers_of(queries[j]));
        }
        Values weights, gradients;
        for (uint32_t i = 0; i < rows_; ++i)
            for (uint32_t j = 0; j < cols_; ++j) {
                const Key key = key_of(owned(i));
                const Score s = scores_->score(queries[j], key, products[i * cols_ + j]);
                const Expr weight = scores_->exponential(s, numbers[j].largest) * numbers[j].scale;
                if (spec_.dv) weights.push_back(scores_->dropped(queries[j], key, weight));
                if (spec_.dk) gradients.push_back(product_gradient(queries[j], key, s, numbers[j], weight, dy_v[i * cols_ + j]));
            }
        Values next;
        const auto add = [&](const Values& of_tile, const AttentionSpec::Element& element, uint32_t width) {
            const auto sum = static_cast<uint32_t>(next.size() / sums());
            put(sum, of_tile);
            const auto from = carried.begin() + static_cast<ptrdiff_t>(next.size());
            for (const Expr& v : add_weighted(sum, Values(from, from + sums()), of_head_query(element), width)) next.push_back(v);
        };
        if (spec_.dv) add(weights, spec_.dy, spec_.width);
        if (spec_.dk) add(gradients, spec_.q, spec_.depth);
        return next;
    }

    void store(const AttentionSpec::Store& to, Expr head, Expr place, Expr is_inside, uint32_t c, uint32_t width, Expr value) {
        const Expr at = column(c);
        guarded({real_, is_inside, inside(at, width)}, [&] { to(b_, batch_, head, place, clamp(at, width), value); });
    }
    void store_numbers(const Query& query, Expr largest, Expr total) {
        const Expr first = shape_.chunks > 1 ? chunk_ == 0 : Expr{};
        guarded({real_, query.inside, first, stores_rows_here()}, [&] {
            spec_.numbers(b_, batch_, query.head, query.place, b_.u32(0), largest);
            spec_.numbers(b_, batch_, query.head, query.place, b_.u32(1), total);
        });
    }
    void guarded(std::initializer_list<Expr> tests, const std::function<void()>& body) {
        Expr all;
        for (const Expr& test : tests)
            if (test.valid()) all = all.valid() ? all & test : test;
        if (all.valid())
            b_.when(all, body);
        else
            body();
    }

    Builder& b_;
    const AttentionSpec& spec_;
    const AttentionShape& shape_;
    const uint32_t rows_, cols_;
    std::optional<Scores> scores_;
    Expr real_, first_, chunk_, kv_head_, batch_, x_, y_;
    Expr head_;            // of the queries that a gradient of keys is at
    Expr start_, active_;  // of the tile of the other side; active_ invalid: it is used
};

class RegisterForm : public AttentionBuilder {
public:
    using AttentionBuilder::AttentionBuilder;

private:
    Expr owned(uint32_t) override { return first_ + y_; }
    Expr other(uint32_t col) override { return start_ + col; }
    Expr column(uint32_t c) override { return chunk_ * shape_.columns + c; }

    Values product(const Side& side) override {
        const uint32_t steps = side.features / shape_.features;
        Values sums = b_.loop(b_.u32(0), b_.u32(steps), b_.u32(1), zeros(cols_), [&](Expr step, const Values& carried) {
            Values next = carried;
            for (uint32_t n = 0; n < shape_.features; ++n)
                add_feature(next, side, b_.assume_max(step * shape_.features + n, side.features - 1));
            return next;
        });
        for (uint32_t d = steps * shape_.features; d < side.features; ++d) add_feature(sums, side, b_.u32(d));
        return sums;
    }
    void add_feature(Values& sums, const Side& side, Expr d) {
        const Expr mine = side.owned(owned(0), d);
        for (uint32_t j = 0; j < cols_; ++j) sums[j] = b_.fma(mine, side.other(other(j), d), sums[j]);
    }

    void put(uint32_t, const Values& weights) override { weights_ = weights; }
    Values add_weighted(uint32_t, Values sums, const Load& values, uint32_t width) override {
        for (uint32_t j = 0; j < cols_; ++j)
            for (uint32_t c = 0; c < shape_.columns; ++c)
                sums[c] = b_.fma(weights_[j], values(other(j), clamp(column(c), width)), sums[c]);
        return sums;
    }
    Values row_maxima(Values mine) override { return mine; }
    Values row_sums(Values mine) override { return mine; }

    Values weights_;
};

class StagedForm : public AttentionBuilder {
public:
    StagedForm(Builder& b, const AttentionSpec& spec, const AttentionShape& shape) : AttentionBuilder(b, spec, shape) {
        stage_ = b.workgroup_array("stage", kir::f32_type, shape.stage_elements());
        for (uint32_t i = 0; i < results_of(spec); ++i)
            weights_.push_back(
                b.workgroup_array(i == 0 ? "weights" : "more_weights", kir::f32_type, shape.owned() * (shape.tile() + 1)));
        if (spec.pass == AttentionPass::forward && shape.threads_x > 1)
            partial_ = b.workgroup_array("partial", kir::f32_type, shape.owned() * shape.threads_x);
    }

private:
    Expr owned_here(uint32_t row) { return y_ * rows_ + row; }
    Expr other_here(uint32_t col) { return x_ + col * shape_.threads_x; }
    Expr owned(uint32_t row) override { return first_ + owned_here(row); }
    Expr other(uint32_t col) override { return start_ + other_here(col); }
    Expr column(uint32_t c) override { return chunk_ * shape_.chunk_width() + (x_ + c * shape_.threads_x); }
    Expr stores_rows_here() override { return shape_.threads_x > 1 ? x_ == 0 : Expr{}; }

    // Calls f for elements 0 .. count-1, shared out among the invocations.
    void share(uint32_t count, const std::function<void(Expr)>& f) {
        for (uint32_t first = 0; first < count; first += shape_.threads()) {
            const Expr e = y_ * shape_.threads_x + x_ + first;
            when_below(b_, e, count, [&] { f(b_.assume_max(e, count - 1)); });
        }
    }
    // What a tile without use would load is zero.
    Expr if_active(const std::function<Expr()>& load) {
        if (!active_.valid()) return load();
        return b_.branch(
            active_, [&] { return Values{load()}; }, [&] { return Values{zero()}; })[0];
    }

    // `count` places by the features from `first` on, laid out [feature][place] with a skew against bank conflicts.
    void stage_side(uint32_t offset, uint32_t count, Expr first, uint32_t features, const std::function<Expr(Expr, Expr)>& load) {
        share(count * shape_.features, [&](Expr e) {
            const Expr d = first + e % shape_.features, place = e / shape_.features;
            Expr value = if_active([&] { return load(place, clamp(d, features)); });
            if (const Expr in = inside(d, features); in.valid()) value = b_.select(in, value, zero());
            b_.store(stage_, e % shape_.features * (count + 1) + place + offset, value);
        });
    }

    Values product(const Side& side) override {
        const uint32_t mine = shape_.owned(), theirs = shape_.tile(), offset = shape_.features * (mine + 1);
        const uint32_t steps = static_cast<uint32_t>(ceil_div(side.features, shape_.features));
        return b_.loop(b_.u32(0), b_.u32(steps), b_.u32(1), zeros(rows_ * cols_), [&](Expr step, const Values& carried) {
            const Expr first = b_.assume_max(step, steps - 1) * shape_.features;
            stage_side(0, mine, first, side.features, [&](Expr place, Expr d) { return side.owned(first_ + place, d); });
            stage_side(offset, theirs, first, side.features, [&](Expr place, Expr d) { return side.other(start_ + place, d); });
            b_.barrier();
            Values sums = carried;
            for (uint32_t d = 0; d < shape_.features; ++d) {
                Values a, c;
                for (uint32_t i = 0; i < rows_; ++i) a.push_back(b_.load(stage_, owned_here(i) + d * (mine + 1)));
                for (uint32_t j = 0; j < cols_; ++j) c.push_back(b_.load(stage_, other_here(j) + (offset + d * (theirs + 1))));
                for (uint32_t i = 0; i < rows_; ++i)
                    for (uint32_t j = 0; j < cols_; ++j) sums[i * cols_ + j] = b_.fma(a[i], c[j], sums[i * cols_ + j]);
            }
            b_.barrier();
            return sums;
        });
    }

    // Read behind the barrier that follows the staging of values.
    void put(uint32_t sum, const Values& weights) override {
        for (uint32_t i = 0; i < rows_; ++i)
            for (uint32_t j = 0; j < cols_; ++j)
                b_.store(weights_[sum], owned_here(i) * (shape_.tile() + 1) + other_here(j), weights[i * cols_ + j]);
    }
    Values add_weighted(uint32_t sum, Values sums, const Load& values, uint32_t width) override {
        const uint32_t terms = shape_.terms, across = shape_.chunk_width();
        return b_.loop(b_.u32(0), b_.u32(shape_.tile()), b_.u32(terms), std::move(sums), [&](Expr from, const Values& carried) {
            const Expr first = b_.assume_max(from, shape_.tile() - terms);
            share(terms * across, [&](Expr e) {
                const Expr at = clamp(chunk_ * across + e % across, width);
                b_.store(stage_, e, if_active([&] { return values(start_ + (first + e / across), at); }));
            });
            b_.barrier();
            Values next = carried;
            for (uint32_t k = 0; k < terms; ++k) {
                Values w, v;
                for (uint32_t i = 0; i < rows_; ++i)
                    w.push_back(b_.load(weights_[sum], owned_here(i) * (shape_.tile() + 1) + (first + k)));
                for (uint32_t c = 0; c < shape_.columns; ++c) v.push_back(b_.load(stage_, other_here(c) + k * across));
                for (uint32_t i = 0; i < rows_; ++i)
                    for (uint32_t c = 0; c < shape_.columns; ++c) {
                        Expr& total = next[i * shape_.columns + c];
                        total = b_.fma(w[i], v[c], total);
                    }
            }
            b_.barrier();
            return next;
        });
    }

    // Each row's parts, from all of its invocations, in order.
    template <class Join>
    Values combine(const Values& mine, const Join& join) {
        if (shape_.threads_x == 1) return mine;
        for (uint32_t i = 0; i < rows_; ++i) b_.store(partial_, owned_here(i) * shape_.threads_x + x_, mine[i]);
        b_.barrier();
        Values all;
        for (uint32_t i = 0; i < rows_; ++i) {
            Expr total = b_.load(partial_, owned_here(i) * shape_.threads_x);
            for (uint32_t x = 1; x < shape_.threads_x; ++x)
                total = join(total, b_.load(partial_, owned_here(i) * shape_.threads_x + x));
            all.push_back(total);
        }
        return all;
    }
    Values row_maxima(Values mine) override {
        return combine(mine, [&](Expr a, Expr c) { return b_.max(a, c); });
    }
    Values row_sums(Values mine) override {
        if (shape_.threads_x > 1) b_.barrier();  // the last tile's maxima have been read
        return combine(mine, [](Expr a, Expr c) { return a + c; });
    }

    kir::ArrayRef stage_, partial_;
    std::vector<kir::ArrayRef> weights_;
};

}  // namespace

uint64_t attention_flops(const AttentionSpec& spec) {
    const uint64_t pairs = uint64_t{spec.batch} * spec.kv_heads * spec.group * spec.queries * spec.keys;
    uint64_t features = spec.depth;
    if (spec.y || spec.dv) features += spec.width;
    if (spec.dq || spec.dk) features += spec.width + spec.depth;
    return 2 * pairs * features;
}

Result<Grid> build_attention(Builder& b, const AttentionSpec& spec, const Caps& caps) {
    TRY(const AttentionShape shape, attention_shape(spec, caps));
    if (shape.staged)
        StagedForm(b, spec, shape).build();
    else
        RegisterForm(b, spec, shape).build();
    return shape.grid;
}

}  // namespace darner::kernels

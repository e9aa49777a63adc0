#include "planner/local/tape.h"

#include <algorithm>
#include <map>
#include <vector>

namespace longhaul::planner {
namespace {

// The pool of trainer/model/tensor_pool.h: a block for each tensor of a size that is live at once,
// kept.
class Pool {
 public:
  struct Block {
    int64_t bytes = 0;
  };

  Block Allocate(int64_t bytes) {
    if (bytes < kPooledBytes) return {};
    const int64_t whole = (bytes + kPage - 1) / kPage * kPage + kPage;
    Count& count = counts_[whole];
    if (++count.live > count.most) {
      count.most = count.live;
      held_ += whole;
    }
    live_ += whole;
    most_live_ = std::max(most_live_, live_);
    return {whole};
  }
  void Free(const Block& block) {
    if (block.bytes == 0) return;
    --counts_[block.bytes].live;
    live_ -= block.bytes;
  }

  int64_t held() const { return held_; }
  int64_t most_live() const { return most_live_; }

 private:
  static constexpr int64_t kPooledBytes = 32 << 10;
  static constexpr int64_t kPage = 4096;
  struct Count {
    int64_t live = 0;
    int64_t most = 0;
  };
  std::map<int64_t, Count> counts_;
  int64_t held_ = 0;
  int64_t live_ = 0;
  int64_t most_live_ = 0;
};

using Block = Pool::Block;

constexpr double kFloat = 4;
// Of one tensor; sums of all of a step's stay in 64 bits.
constexpr double kMostBytes = 1e13;

// Sizes in bytes of what a micro-batch makes.
struct Sizes {
  Sizes(const spec::ModelSpec& model, double sequences)
      : row(Of(sequences * model.sequence * model.hidden)),
        scores(Of(sequences * model.heads * model.sequence * double(model.sequence))),
        logits(Of(sequences * model.sequence * model.vocabulary)),
        square(Of(double(model.hidden) * model.hidden)),
        words(Of(double(model.vocabulary) * model.hidden)) {}

  static int64_t Of(double floats) {
    return static_cast<int64_t>(std::min(kMostBytes, kFloat * floats));
  }

  int64_t row;     // one activation of the residual stream's size
  int64_t scores;  // of all heads
  int64_t logits;
  int64_t square;  // a weight of hidden x hidden
  int64_t words;   // of the vocabulary
};

// What a layer's forward leaves for its backward.
struct Saved {
  Block stream;  // what comes in
  Block normed;
  Block heads;  // queries, keys, values
  Block softmax;
  Block mixed;
  Block middle;  // the stream after attention
  Block normed_again;
  Block wide;
  Block activated;
};

// Replays the allocations of the built-in trainer in their order, with the same pool. The order
// decides the peak, so a change of the trainer's operators needs the same change here.
class Tape {
 public:
  // A micro-batch forward and backward.
  // Saved tensors stay until the backward of their layer; the layers' backwards run in reverse
  // order and free them one by one.
  void Train(const Sizes& s, uint32_t layers) {
    std::vector<Saved> saved(layers);
    Block stream = Embed(s);
    for (Saved& layer : saved) {
      layer.stream = stream;
      stream = Forward(s, layer);
    }
    const Block normed = pool_.Allocate(s.row);
    const Block logits = pool_.Allocate(s.logits);
    const Block log_softmax = pool_.Allocate(s.logits);
    pool_.Free(logits);
    const Block picked = pool_.Allocate(s.logits);
    const Block logits_gradient = pool_.Allocate(s.logits);
    pool_.Free(picked);
    pool_.Free(log_softmax);
    Pass(s.words);
    Block gradient = pool_.Allocate(s.row);
    pool_.Free(logits_gradient);
    pool_.Free(normed);
    gradient = Replace(gradient, s.row);  // through the norm
    pool_.Free(stream);
    while (!saved.empty()) {
      gradient = Backward(s, saved.back(), gradient);
      saved.pop_back();
    }
    Pass(s.words);
    pool_.Free(gradient);
  }

  // Forward alone: nothing is saved.
  void Evaluate(const Sizes& s, uint32_t layers) {
    Block stream = Embed(s);
    for (uint32_t i = 0; i < layers; ++i) {
      Saved layer;
      layer.stream = stream;
      saves_ = false;
      stream = Forward(s, layer);
      saves_ = true;
    }
    const Block normed = pool_.Allocate(s.row);
    const Block logits = pool_.Allocate(s.logits);
    pool_.Free(normed);
    const Block log_softmax = pool_.Allocate(s.logits);
    for (const Block& block : {log_softmax, logits, stream}) pool_.Free(block);
  }

  Bytes live() const { return Bytes(pool_.most_live()); }
  Bytes held() const { return Bytes(pool_.held()); }

 private:
  void Pass(int64_t bytes) {
    const Block block = pool_.Allocate(bytes);
    pool_.Free(block);
  }

  // The next tensor is made of this one, which is then given back.
  Block Replace(const Block& old, int64_t bytes) {
    const Block block = pool_.Allocate(bytes);
    pool_.Free(old);
    return block;
  }

  // Given back at once where nothing is saved.
  void Release(const Block& block) {
    if (!saves_) pool_.Free(block);
  }

  Block Embed(const Sizes& s) {
    const Block token = pool_.Allocate(s.row);
    Block stream = Replace(token, s.row);  // with the position
    for (uint32_t i = 0; i < spec::kPreviousTokens; ++i) {
      const Block earlier = pool_.Allocate(s.row);
      stream = Replace(stream, s.row);
      pool_.Free(earlier);
    }
    return stream;
  }

  Block Forward(const Sizes& s, Saved& layer) {
    layer.normed = pool_.Allocate(s.row);
    const Block qkv = pool_.Allocate(3 * s.row);
    layer.heads = Replace(qkv, 3 * s.row);
    const Block scores = pool_.Allocate(s.scores);
    layer.softmax = pool_.Allocate(s.scores);
    const Block by_heads = pool_.Allocate(s.row);
    Release(layer.softmax);
    layer.mixed = pool_.Allocate(s.row);
    pool_.Free(by_heads);
    pool_.Free(scores);
    Release(layer.heads);
    const Block projected = pool_.Allocate(s.row);
    Release(layer.mixed);
    Release(layer.normed);
    layer.middle = pool_.Allocate(s.row);
    Release(layer.stream);
    pool_.Free(projected);
    layer.normed_again = pool_.Allocate(s.row);
    layer.wide = pool_.Allocate(4 * s.row);
    layer.activated = pool_.Allocate(4 * s.row);
    const Block down = pool_.Allocate(s.row);
    Release(layer.activated);
    Release(layer.wide);
    Release(layer.normed_again);
    const Block stream = pool_.Allocate(s.row);
    Release(layer.middle);
    pool_.Free(down);
    return stream;
  }

  // Takes the gradient of the layer's output, returns that of its input.
  Block Backward(const Sizes& s, const Saved& layer, Block gradient) {
    Block activated = pool_.Allocate(4 * s.row);
    Pass(4 * s.square);  // a weight's gradient, until it is added
    pool_.Free(layer.activated);
    const Block wide = Replace(activated, 4 * s.row);
    pool_.Free(layer.wide);
    Block normed = pool_.Allocate(s.row);
    Pass(4 * s.square);
    pool_.Free(wide);
    pool_.Free(layer.normed_again);
    normed = Replace(normed, s.row);
    pool_.Free(layer.middle);
    pool_.Free(normed);  // added to the gradient in place
    const Block mixed = pool_.Allocate(s.row);
    Pass(s.square);
    pool_.Free(layer.mixed);
    const Block qkv = AttentionBackward(s, layer, mixed);
    normed = pool_.Allocate(s.row);
    Pass(3 * s.square);
    pool_.Free(qkv);
    pool_.Free(layer.normed);
    normed = Replace(normed, s.row);
    pool_.Free(layer.stream);
    pool_.Free(normed);
    return gradient;
  }

  Block AttentionBackward(const Sizes& s, const Saved& layer, const Block& mixed) {
    const Block by_heads = Replace(mixed, s.row);
    const Block softmax = pool_.Allocate(s.scores);
    const Block values = pool_.Allocate(s.row);
    pool_.Free(by_heads);
    const Block scores = Replace(softmax, s.scores);
    pool_.Free(layer.softmax);
    // Each of the three is put into a whole of zeros, and the wholes are added.
    Block whole = Replace(values, 3 * s.row);
    const Block queries = pool_.Allocate(s.row);
    const Block keys = pool_.Allocate(s.row);
    pool_.Free(scores);
    pool_.Free(layer.heads);
    for (const Block& part : {keys, queries}) {
      const Block other = Replace(part, 3 * s.row);
      pool_.Free(other);
    }
    return Replace(whole, 3 * s.row);  // by rows
  }

  Pool pool_;
  bool saves_ = true;
};

}  // namespace

ActivationPeak TrainingPeak(const spec::ModelSpec& model, double sequences) {
  Tape tape;
  tape.Train(Sizes(model, sequences), model.layers);
  return {tape.live(), tape.held()};
}

ActivationPeak EvaluationPeak(const spec::ModelSpec& model, double sequences) {
  Tape tape;
  tape.Evaluate(Sizes(model, sequences), model.layers);
  return {tape.live(), tape.held()};
}

}  // namespace longhaul::planner

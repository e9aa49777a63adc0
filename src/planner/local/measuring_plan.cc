#include "planner/local/measuring_plan.h"

#include <algorithm>

#include "planner/local/operator_times.h"

namespace longhaul::planner {
namespace {

// A product or attention of more takes too long to repeat; of less is all launch.
constexpr double kMostFlops = 2.2e9;
constexpr double kLeastFlops = 2.5e5;
constexpr double kMostScores = 8.5e6;

Figure Of(FigureKind kind, double a = 0, double b = 0, double c = 0) {
  Figure figure;
  figure.kind = kind;
  figure.sizes = {a, b, c};
  return figure;
}

std::vector<Figure> MatmulLattice() {
  std::vector<Figure> lattice;
  for (double m = 32; m <= 8192; m *= 2) {
    for (double n = 32; n <= 4096; n *= 2) {
      for (double k = 32; k <= 4096; k *= 2) {
        const double flops = 2 * m * n * k;
        const bool wide = n > 8 * k || k > 8 * n;  // no layer of a transformer has such
        if (flops >= kLeastFlops && flops <= kMostFlops && !wide) {
          lattice.push_back(Of(FigureKind::kMatmul, m, n, k));
        }
      }
    }
  }
  return lattice;
}

std::vector<Figure> AttentionLattice() {
  std::vector<Figure> lattice;
  for (double heads = 2; heads <= 128; heads *= 2) {
    for (double sequence = 32; sequence <= 1024; sequence *= 2) {
      for (double dim = 16; dim <= 128; dim *= 2) {
        if (heads * sequence * sequence <= kMostScores) {
          lattice.push_back(Of(FigureKind::kAttention, heads, sequence, dim));
        }
      }
    }
  }
  return lattice;
}

struct Stream {
  FigureKind kind;
  double width;
};

void AddStreams(bool quick, double budget_s, std::vector<Measurement>& list) {
  using enum FigureKind;
  // Narrow and wide rows, from the first cache to beyond the last.
  constexpr Stream kStreams[] = {{kNorm, 128},        {kNorm, 512},      {kActivation, 512},
                                 {kActivation, 2048}, {kResidual, 128},  {kResidual, 512},
                                 {kLoss, 257},        {kEmbedding, 128}, {kEmbedding, 512}};
  for (const Stream& stream : kStreams) {
    for (double rows = 64; rows <= 4096; rows *= quick ? 8 : 4) {
      if (rows * stream.width > 3e6) continue;
      list.push_back({Of(stream.kind, rows, stream.width), budget_s});
    }
  }
  for (double floats = 5e4; floats <= 3e7; floats *= quick ? 20 : 5) {
    list.push_back({Of(kOptimizer, floats), budget_s});
  }
}

void AddTransfers(uint32_t cores, bool quick, std::vector<Measurement>& list) {
  std::vector<double> group = {2};
  for (const uint32_t ranks : {cores, 2 * cores, 4 * cores}) {
    if (ranks > group.back() && ranks <= 32) group.push_back(ranks);
  }
  if (quick && group.size() > 2) group.resize(2);
  for (const double ranks : group) {
    for (double bytes = 1 << 14; bytes <= (64 << 20); bytes *= 16) {
      list.push_back({Of(FigureKind::kAllReduce, ranks, bytes), quick ? 0.2 : 0.5});
    }
  }
  list.push_back({Of(FigureKind::kCopy, 64 << 20), 0.2});
  list.push_back({Of(FigureKind::kStorage, 1 << 20), 0.2});
  list.push_back({Of(FigureKind::kStorage, 32 << 20), 0.5});
}

}  // namespace

MeasuringPlan::MeasuringPlan(uint32_t cores, bool quick) {
  budget_s_ = quick ? 0.12 : 0.4;
  const double short_s = quick ? 0.06 : 0.25;
  fixed_.push_back({Of(FigureKind::kLaunch), short_s});
  // The corners of what training uses.
  for (const auto& [m, n, k] : {std::array<double, 3>{64, 128, 128},
                                {1024, 128, 128},
                                {1024, 512, 128},
                                {1024, 128, 512},
                                {8192, 128, 128},
                                {64, 1024, 1024},
                                {512, 1024, 1024},
                                {256, 2048, 512}}) {
    fixed_.push_back({Of(FigureKind::kMatmul, m, n, k), budget_s_});
  }
  for (const auto& [heads, sequence, dim] :
       {std::array<double, 3>{4, 64, 16}, {32, 128, 32}, {8, 512, 64}, {2, 1024, 128}}) {
    fixed_.push_back({Of(FigureKind::kAttention, heads, sequence, dim), budget_s_});
  }
  AddStreams(quick, short_s, fixed_);
  AddTransfers(cores, quick, fixed_);
  product_lattice_ = MatmulLattice();
  attention_lattice_ = AttentionLattice();
  products_left_ = quick ? 8 : 52;
  attentions_left_ = quick ? 4 : 16;
}

size_t MeasuringPlan::total() const {
  return done_ + (fixed_.size() - next_fixed_) + products_left_ + attentions_left_;
}

std::optional<Figure> MeasuringPlan::LeastSure(FigureKind kind) const {
  const OperatorTimes times(figures_);
  const auto& lattice = kind == FigureKind::kMatmul ? product_lattice_ : attention_lattice_;
  std::optional<Figure> least_sure;
  double most_doubt = 0;
  for (const Figure& candidate : lattice) {
    const bool measured = std::any_of(figures_.begin(), figures_.end(), [&](const Figure& figure) {
      return figure.kind == kind && figure.sizes == candidate.sizes;
    });
    if (measured) continue;
    const double doubt = times.Doubt(kind, candidate.sizes);
    if (doubt > most_doubt) {
      most_doubt = doubt;
      least_sure = candidate;
    }
  }
  return least_sure;
}

std::optional<Measurement> MeasuringPlan::Next() {
  ++done_;
  if (next_fixed_ < fixed_.size()) return fixed_[next_fixed_++];
  for (auto& [left, kind] : {std::pair<uint32_t&, FigureKind>{products_left_, FigureKind::kMatmul},
                             {attentions_left_, FigureKind::kAttention}}) {
    if (left == 0) continue;
    --left;
    if (const auto figure = LeastSure(kind)) return Measurement{*figure, budget_s_};
  }
  --done_;
  return std::nullopt;
}

void MeasuringPlan::Add(const Figure& measured) { figures_.push_back(measured); }

}  // namespace longhaul::planner

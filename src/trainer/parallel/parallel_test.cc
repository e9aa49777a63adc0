// That a layout changes where things are computed and nothing else.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <set>
#include <string>
#include <vector>

#include "trainer/parallel/gather.h"
#include "trainer/parallel/mesh.h"
#include "trainer/trainer_fixture.h"

namespace longhaul::trainer {
namespace {

std::string Named(const MeshSizes& sizes) {
  return std::to_string(sizes.data) + "x" + std::to_string(sizes.tensor) + "x" +
         std::to_string(sizes.pipeline);
}

TEST(Mesh, PutsTensorPartsNextToEachOtherThenReplicasThenStages) {
  const MeshSizes sizes{2, 2, 2};
  const auto mesh = Mesh::Create(sizes, 8, 6);
  ASSERT_TRUE(mesh.ok());
  EXPECT_EQ(mesh->part().stage, 1u);
  EXPECT_EQ(mesh->replica(), 1u);
  EXPECT_EQ(mesh->part().part, 0u);
  EXPECT_EQ(mesh->TensorRanks(), (std::vector{6, 7}));
  EXPECT_EQ(mesh->DataRanks(), (std::vector{4, 6}));
  EXPECT_EQ(mesh->PipelineRanks(), (std::vector{2, 6}));
  EXPECT_EQ(mesh->ReplicaRanks(), (std::vector{2, 3, 6, 7}));
}

TEST(Mesh, TakesWhatIsLeftAsReplicasAndRefusesWhatDoesNotFit) {
  EXPECT_EQ(Mesh::Create({0, 2, 1}, 8, 0)->data(), 4u);
  const auto refused = Mesh::Create({2, 2, 1}, 8, 0);
  EXPECT_EQ(refused.status().code(), Code::kInvalidArgument);
  EXPECT_NE(refused.status().message().find("8 ranks"), std::string::npos);
  EXPECT_FALSE(Mesh::Create({0, 3, 1}, 8, 0).ok());
}

TEST(ParameterTable, PartsHoldEachElementOnceAndInitialiseItAlike) {
  spec::ModelSpec model;
  model.layers = 3;
  model.hidden = 32;
  model.heads = 4;
  model.sequence = 8;
  const ParameterTable whole(model);
  std::vector<float> want(whole.floats());
  Initialise(whole, 7, want);
  std::vector<int> seen(whole.floats());
  for (uint32_t stage = 0; stage < 2; ++stage) {
    for (uint32_t part = 0; part < 2; ++part) {
      const ParameterTable here(model, {2, part, 2, stage});
      std::vector<float> weights(here.floats());
      Initialise(here, 7, weights);
      for (const Parameter& own : here.parameters()) {
        const Parameter& parameter = whole.Find(own.name);
        for (const Stretch& stretch : Stretches(own)) {
          for (size_t i = 0; i < stretch.count; ++i) {
            const size_t place = parameter.offset + stretch.whole + i;
            seen[place] += own.box.dimension >= 0 || part == 0 ? 1 : 0;
            ASSERT_EQ(weights[own.offset + stretch.here + i], want[place]) << own.name;
          }
        }
      }
    }
  }
  for (const Parameter& parameter : whole.parameters()) {
    for (size_t i = 0; i < parameter.count; ++i) {
      ASSERT_EQ(seen[parameter.offset + i], 1) << parameter.name << " " << i;
    }
  }
}

class Layouts : public Trainer {
 protected:
  Layouts() {
    config_.model.layers = 3;  // uneven stages
    config_.model.heads = 4;
    config_.train.global_batch = 8;
    config_.micro_batch = 1;
    config_.train.clip = 0.5;  // active
  }

  // Of the whole model, from rank 0: gradients of the first step, the loss of each step, the
  // gradient's norm of each, and the weights after the last.
  struct Course {
    std::vector<float> gradients;
    std::vector<float> losses;
    std::vector<float> norms;
    std::vector<float> weights;
  };

  Course Train(const MeshSizes& sizes) {
    const ParameterTable whole(config_.model);
    const auto results = RunRanks(sizes, [&](Communicators& groups, int) {
      MemoryWorkerApi worker_api;
      auto loop = Loop::Create(config_, groups, worker_api, stop_);
      if (!loop.ok()) _exit(8);
      if (!(*loop)->Fresh().ok()) _exit(9);
      std::vector<float> gradients;
      std::vector<float> tail;
      for (uint64_t step = 1; step <= kSteps; ++step) {
        StepReport report;
        if (!(*loop)->Step(step, report).ok()) _exit(5);
        if (step == 1) gradients = Whole(**loop, whole, groups, (*loop)->gradients());
        tail.push_back(static_cast<float>(report.loss));
        tail.push_back(static_cast<float>(report.gradient_norm));
      }
      const auto weights = Whole(**loop, whole, groups, (*loop)->weights());
      gradients.insert(gradients.end(), tail.begin(), tail.end());
      gradients.insert(gradients.end(), weights.begin(), weights.end());
      return gradients;
    });
    Course course;
    const std::vector<float>& all = results[0];
    EXPECT_EQ(all.size(), 2 * whole.floats() + 2 * kSteps) << Named(sizes);
    if (all.size() != 2 * whole.floats() + 2 * kSteps) return course;
    const auto at = [&](size_t i) { return all.begin() + static_cast<ptrdiff_t>(i); };
    course.gradients.assign(at(0), at(whole.floats()));
    for (size_t i = 0; i < kSteps; ++i) {
      course.losses.push_back(all[whole.floats() + 2 * i]);
      course.norms.push_back(all[whole.floats() + 2 * i + 1]);
    }
    course.weights.assign(at(whole.floats() + 2 * kSteps), all.end());
    return course;
  }

  static std::vector<float> Whole(const Loop& loop, const ParameterTable& whole,
                                  Communicators& groups, std::span<const float> values) {
    auto gathered =
        GatherWhole(loop.table(), whole, groups.replica(), values.first(loop.table().floats()));
    if (!gathered.ok()) _exit(9);
    return std::move(*gathered);
  }

  // Of the largest difference, its share of the largest value.
  static double Apart(const std::vector<float>& a, const std::vector<float>& b) {
    double apart = 0;
    double size = 0;
    for (size_t i = 0; i < std::min(a.size(), b.size()); ++i) {
      apart = std::max(apart, std::abs(double{a[i]} - double{b[i]}));
      size = std::max(size, std::abs(double{a[i]}));
    }
    return a.size() == b.size() && size > 0 ? apart / size : 1;
  }

  static constexpr size_t kSteps = 3;
};

TEST_F(Layouts, TrainAlikeInEveryDimension) {
  const Course want = Train({1, 1, 1});
  ASSERT_EQ(want.losses.size(), kSteps);
  EXPECT_LT(want.losses.back(), want.losses.front());
  for (const MeshSizes& sizes :
       {MeshSizes{2, 1, 1}, MeshSizes{1, 4, 1}, MeshSizes{1, 1, 2}, MeshSizes{2, 2, 2}}) {
    SCOPED_TRACE(Named(sizes));
    const Course got = Train(sizes);
    // Adam would hide a constant factor, so the raw gradient too.
    EXPECT_LT(Apart(want.gradients, got.gradients), 1e-5);
    EXPECT_LT(Apart(want.norms, got.norms), 1e-5);
    EXPECT_LT(Apart(want.losses, got.losses), 1e-5);
    // Where a gradient is all but zero Adam makes much of its rounding.
    EXPECT_LT(Apart(want.weights, got.weights), 1e-3);
  }
}

TEST_F(Layouts, GiveTheSameBitsEachTime) {
  const Course first = Train({2, 2, 2});
  const Course second = Train({2, 2, 2});
  EXPECT_FALSE(first.weights.empty());
  EXPECT_EQ(first.weights, second.weights);
  EXPECT_EQ(first.losses, second.losses);
}

TEST_F(Layouts, OfPartsRunToTheEndAndTellTheWholeModel) {
  config_.train.steps = 4;
  config_.train.evaluate_every = 2;
  MemoryWorkerApi alone;
  Run(alone);
  const auto results = RunRanks({1, 2, 2}, [&](Communicators& groups, int rank) {
    MemoryWorkerApi worker_api;
    auto loop = Loop::Create(config_, groups, worker_api, stop_);
    if (!loop.ok() || !(*loop)->Run().ok()) _exit(5);
    if ((rank == 0) != (worker_api.result.find("\"weights_hash\"") != std::string::npos)) _exit(10);
    std::vector<float> losses;
    for (const StepReport& report : worker_api.reports) {
      losses.push_back(static_cast<float>(report.validation_loss));
    }
    return losses;
  });
  for (const std::vector<float>& losses : results) {
    ASSERT_EQ(losses.size(), 4u);
    EXPECT_NEAR(losses[1], alone.reports[1].validation_loss, 1e-4);
    EXPECT_NEAR(losses[3], alone.reports[3].validation_loss, 1e-4);
  }
}

TEST_F(Layouts, OfPartsGoOnFromASnapshotWithTheSameBits) {
  config_.train.steps = 5;
  config_.train.evaluate_every = 0;
  // The weights at the end, after a restart from the state of step 2 where there is one.
  const auto run = [&](bool interrupted) {
    return RunRanks({1, 2, 2}, [&, interrupted](Communicators& groups, int) {
      MemoryWorkerApi worker_api;
      if (interrupted) {
        worker_api.snapshot_at = 2;
        worker_api.fail_at = 4;
        auto lost = Loop::Create(config_, groups, worker_api, stop_);
        if (!lost.ok() || (*lost)->Run().ok() || worker_api.saved_step != 2) _exit(5);
        worker_api.snapshot_at = worker_api.fail_at = 0;
      }
      auto loop = Loop::Create(config_, groups, worker_api, stop_);
      if (!loop.ok() || !(*loop)->Run().ok()) _exit(6);
      return std::vector<float>((*loop)->weights().begin(), (*loop)->weights().end());
    });
  };
  EXPECT_EQ(run(false), run(true));
}

}  // namespace
}  // namespace longhaul::trainer

// BLAS is single-threaded from its loading on, and libtorch is ready before the first fork.
int main(int argc, char** argv) {
  if (std::getenv("OPENBLAS_NUM_THREADS") == nullptr) {
    setenv("OPENBLAS_NUM_THREADS", "1", 1);
    setenv("OMP_NUM_THREADS", "1", 1);
    execv("/proc/self/exe", argv);
  }
  longhaul::trainer::PrepareTorch();
  testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}

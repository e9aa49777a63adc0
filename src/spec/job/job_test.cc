#include "spec/job/job.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>

#include "spec/job/job_name.h"

namespace longhaul::spec {
namespace {

using testing::HasSubstr;
using testing::Not;

constexpr const char* kSmall = "data: {include: ['/usr/include/**/*.h']}\n";

JobSpec MustParse(const std::string& text, const char* source = "job.yaml") {
  const auto job = ParseJob(text, source);
  EXPECT_TRUE(job.ok()) << job.status();
  return job.ok() ? *job : JobSpec();
}

std::string MessageOf(const std::string& text) {
  const auto job = ParseJob(text, "job.yaml");
  EXPECT_FALSE(job.ok()) << text;
  return job.ok() ? "" : job.status().message();
}

TEST(ParseJob, ReadsEveryKindOfValue) {
  const JobSpec job = MustParse(R"(
name: first.job-1
model: {kind: gpt, layers: 2, hidden: 64, heads: 2, sequence: 32}
data:
  include: [/usr/include/**/*.h, "/usr/include/c++/**/*"]
  exclude: ['*.o']
  held_out: 0.1
  max_bytes: 3MiB
train:
  steps: 200
  global_batch: 16
  learning_rate: 1e-3
  seed: 18446744073709551615
sample: {prompt: "int\tmain(\u00e9)\n", temperature: 0}
environment: {OMP_NUM_THREADS: 1, EMPTY: ""}
snapshot: {interval_steps: 10, keep: 2}
resources: {nodes: 2, processes_per_node: auto, micro_batch: 4}
max_restarts: 5
inject: kill worker 1 at step 40; kill agent 2 at step 200
)");
  EXPECT_EQ(job.name, "first.job-1");
  EXPECT_TRUE(job.built_in());
  EXPECT_EQ(job.model.layers, 2u);
  EXPECT_EQ(job.data.include.size(), 2u);
  EXPECT_EQ(job.data.max_bytes, 3u << 20);
  EXPECT_EQ(job.data.held_out, 0.1);
  EXPECT_EQ(job.train.learning_rate, 1e-3);
  EXPECT_EQ(job.train.seed, UINT64_MAX);
  EXPECT_EQ(job.sample.prompt, "int\tmain(\u00e9)\n");
  EXPECT_EQ(job.environment.at("OMP_NUM_THREADS"), "1");
  EXPECT_EQ(job.environment.at("EMPTY"), "");
  EXPECT_EQ(job.snapshot.interval_steps, 10u);
  EXPECT_EQ(job.resources.nodes, 2u);
  EXPECT_EQ(job.resources.processes_per_node, std::nullopt);
  EXPECT_EQ(job.resources.micro_batch, 4u);
  EXPECT_EQ(job.max_restarts, 5u);
  EXPECT_EQ(job.faults.size(), 2u);
  // What isn't given keeps its default.
  EXPECT_EQ(job.train.beta2, TrainSpec().beta2);
}

TEST(ParseJob, ReadsJsonToo) {
  const JobSpec job =
      MustParse(R"({"name":"api","command":["python3","train.py","--note","\"a\\b\" \/ \u20ac"],)"
                R"("environment":{"A":"x"},"working_directory":"/tmp","resources":{"nodes":3},)"
                "\n\t\"inject\": [\"kill worker 1 at step 4000\", \"kill controller at step 2\"],"
                R"("max_restarts":0,"snapshot":null})");
  EXPECT_FALSE(job.built_in());
  EXPECT_EQ(job.command.at(3), "\"a\\b\" / \u20ac");
  EXPECT_EQ(job.working_directory, "/tmp");
  EXPECT_EQ(job.faults.size(), 2u);
  EXPECT_EQ(job.max_restarts, 0u);
}

TEST(ParseJob, NamesAJobAfterItsFile) {
  EXPECT_EQ(MustParse(kSmall, "examples/headers-gpt.yaml").name, "headers-gpt");
  EXPECT_EQ(MustParse(kSmall, "request body").name, "request-body");
  EXPECT_EQ(MustParse(kSmall, "/tmp/.hidden").name, "job");
  EXPECT_EQ(MustParse(kSmall, (std::string(200, 'x') + ".yaml").c_str()).name.size(), 63u);
}

TEST(CheckJobName, TakesWhatCommandLinesAndAddressesCanName) {
  for (const char* name : {"a", "7b", "headers-gpt", "A.b_c-2"})
    EXPECT_TRUE(IsJobName(name)) << name;
  for (const std::string name : {"", "-x", "--help", "_x", ".x", "a b", "a/b", "\xc3\xa4"}) {
    const Status status = CheckJobName(name);
    EXPECT_EQ(status.code(), Code::kInvalidArgument) << name;
    EXPECT_THAT(status.message(), HasSubstr("a letter or digit first"));
    EXPECT_THAT(MessageOf(std::string(kSmall) + "name: '" + name + "'"), HasSubstr("name"));
  }
  EXPECT_TRUE(IsJobName(std::string(63, 'x')));
  EXPECT_FALSE(IsJobName(std::string(64, 'x')));
}

TEST(ParseJob, ClipsOnlyADefaultWarmUpToAShortJob) {
  EXPECT_EQ(MustParse(std::string(kSmall) + "train: {steps: 5}").train.warmup_steps, 5u);
  EXPECT_THAT(MessageOf(std::string(kSmall) + "train: {steps: 5, warmup_steps: 6}"),
              HasSubstr("train.warmup_steps: 6 is more than the 5 of train.steps"));
}

// Each row: lines after the data section (line 1), and what the message must hold.
TEST(ParseJob, NamesTheLineTheKeyAndTheLimits) {
  const struct {
    const char* text;
    const char* want;
  } kRows[] = {
      {"stpes: 3", "job.yaml:2: stpes: unknown key"},
      {"steps: 3", "did you mean 'train.steps'"},
      {"train: {stpes: 3}",
       "train.stpes: unknown key, did you mean 'steps'; known here: steps, gl"},
      {"train:\n  steps: 0", "job.yaml:3: train.steps: 0 is out of range: 1 to 1,000,000,000"},
      {"train: {steps: -4}", "-4 is out of range"},
      {"train: {steps: 99999999999999999999}", "out of range"},
      {"train: {steps: many}", "must be a whole number (1 to 1,000,000,000), not 'many'"},
      {"train: {steps: '3'}", "not the text '3'"},
      {"train: {steps: 3.0}", "not '3.0'"},
      {"train: {steps: }", "not empty"},
      {"train: {steps: [3]}", "not a list"},
      {"train: 3", "train: must be a map of keys, not '3'"},
      {"train: {learning_rate: 0}", "learning_rate: 0 is out of range: above 0, below 10"},
      {"train: {learning_rate: 10}", "out of range: above 0, below 10"},
      {"train: {learning_rate: .nan}", "must be a number (above 0, below 10), not '.nan'"},
      {"train: {learning_rate: nan}", "must be a number"},
      {"train: {learning_rate: inf}", "must be a number"},
      {"train: {beta1: 1}", "at least 0, below 1"},
      {"model: {kind: bert}", "model.kind: must be 'gpt', not 'bert'"},
      {"model: {layers: 1001}", "1 to 1,000"},
      {"model: {vocabulary: 256}", "only 257"},
      {"model: {sequence: 7}", "8 to 1,000,000"},
      {"model: {hidden: 100, heads: 3}", "model.hidden: 100 is not divisible by the 3 of"},
      {"model: {hidden: 65537}", "1 to 65,536"},
      {"sample: {temperature: 10.5}", "sample.temperature: 10.5 is out of range: 0 to 10"},
      {"sample: {prompt: \"a\\0b\"}", "must not contain a NUL"},
      {"layout: {tensor: 3}", "layout.tensor: tensor 3 does not divide the 4 heads"},
      {"layout: {pipeline: 5}", "layout.pipeline: pipeline 5 is more than the 4 layers"},
      {"layout: {data: 3}", "layout.data: 3 replicas don't divide the 32 sequences"},
      {"layout: {data: 2, tensor: 2, pipeline: 2}\nresources: {nodes: 2, processes_per_node: 2}",
       "2 x 2 x 2 (data x tensor x pipeline) are 8 workers, resources name 4"},
      {"layout: {expert: 2}", "layout.expert: unknown key"},
      {"trace: {first_step: 301}", "trace.first_step: 301 is after the last step, 300"},
      {"snapshot: {keep: 0}", "snapshot.keep: 0 is out of range: 1 to 1,000"},
      {"snapshot: {interval_steps: never}", "(auto, or 1 to 1,000,000,000), not 'never'"},
      {"resources: {nodes: 0}", "auto, or 1 to 100,000"},
      {"resources: {nodes: 2, minimum_nodes: 3}", "3 is above the 2 of resources.nodes"},
      {"resources: {nodes: 2, maximum_nodes: 1}", "1 is below the 2 of resources.nodes"},
      {"resources: {minimum_nodes: 1}", "needs resources.nodes beside it"},
      {"layout: {tensor: 2, pipeline: 2}\nresources: {nodes: 4, minimum_nodes: 1, "
       "processes_per_node: 2}",
       "1 nodes hold no whole replicas of tensor 2 x pipeline 2 with 2 workers each: "
       "minimum_nodes, nodes and maximum_nodes must be multiples of 2"},
      {"layout: {tensor: 1, pipeline: 1}\nresources: {nodes: 4, maximum_nodes: 40, "
       "processes_per_node: 1}",
       "maximum_nodes 40 makes 40 replicas, more than the 32"},
      {"resources: {micro_batch: 33}", "33 is more than the 32 of train.global_batch"},
      {"max_restarts: 1000001", "0 to 1,000,000"},
      {"name: ../up", "'../up' is not a name"},
      {"name: ''", "is not a name"},
      {"name: [a]", "name: must be a text, not a list"},
      {"environment: {1A: x}", "environment.1A: not a variable's name"},
      {"environment: {RANK: 0}", "is set for each worker by longhaul itself"},
      {"environment: [A]", "must be a map such as {NAME: value}"},
      {"inject: kill worker 1 at step 301", "can never happen: the job ends after step 300"},
      {"inject: kil worker 1 at step 3", "did you mean 'kill'?"},
      {"inject: [kill controller at step 1, {}]", "inject: must be a text, not a map"},
      {"resources: {nodes: 2}\ninject: kill agent 3 at step 3", "job's agents are 1 to 2"},
      {"resources: {nodes: 2, processes_per_node: 2}\ninject: kill worker 4 at step 3",
       "job.yaml:3: inject: 'kill worker 4 at step 3' can never happen: the job's workers are 0 "
       "to"},
      {"command: [python3]",
       "data: is for the built-in trainer and has no effect beside 'command'"},
      {"command: []", "command: must not be empty"},
      {"command: [python3, '']", "command[1]: must not be empty"},
      {"command: python3", "command: must be a list such as [one, two], not 'python3'"},
      {"name: a\nname: b", "job.yaml:3: the key 'name' is given twice"},
      {"name: &a x", "job.yaml:2: anchors (&) and aliases (*) are not supported"},
      {"name: !!str x", "tags such as"},
      {"? [a]\n: x", "a key must be a word"},
      {"a: b: c", "job.yaml:2:5: not valid YAML: illegal map value"},
      {"name: [", "not valid YAML"},
      {"---\nname: x", "more than one YAML document"},
      {"name: \x01", "job.yaml:2: the byte '\\x01' is not UTF-8 text"},
      {"name: \xff", "job.yaml:2: the byte '\\xff' is not UTF-8 text"},
      {"name: \"\\N\"", "an escape in this text gives no UTF-8 character"},
      {"name: \xc0\x80", "is not UTF-8 text"},
      {"name: \xed\xa0\x80", "is not UTF-8 text"},
  };
  for (const auto& row : kRows) {
    EXPECT_THAT(MessageOf(std::string(kSmall) + row.text), HasSubstr(row.want)) << row.text;
  }
}

TEST(ParseJob, ChecksSizes) {
  const struct {
    const char* size;
    uint64_t want;  // 0: refused
  } kRows[] = {{"1KiB", 1'024},
               {"1TiB", uint64_t{1} << 40},
               {"64 MiB", 64u << 20},
               {"2MB", 2'000'000},
               {"4096", 4'096},
               {"4096B", 4'096},
               {"1023", 0},
               {"2TiB", 0},
               {"64mb", 0},
               {"1.5MiB", 0},
               {"MiB", 0},
               {"-1MiB", 0},
               {"9999999999999TiB", 0},
               {"''", 0}};
  for (const auto& row : kRows) {
    const std::string text = std::string("data: {include: [x], max_bytes: ") + row.size + "}\n";
    const auto job = ParseJob(text, "job.yaml");
    EXPECT_EQ(job.ok(), row.want != 0) << row.size;
    if (job.ok()) {
      EXPECT_EQ(job->data.max_bytes, row.want) << row.size;
    } else {
      EXPECT_THAT(job.status().message(), HasSubstr("1KiB to 1TiB"));
    }
  }
}

TEST(ParseJob, RefusesWhatIsNoJobAtAll) {
  EXPECT_THAT(MessageOf(""), HasSubstr("job.yaml: is empty"));
  EXPECT_THAT(MessageOf("# nothing\n"), HasSubstr("job.yaml"));
  EXPECT_THAT(MessageOf("hello"), HasSubstr("a job is a map of keys"));
  EXPECT_THAT(MessageOf("[1, 2]"), HasSubstr("a job is a map of keys"));
  EXPECT_THAT(MessageOf("{}"), HasSubstr("data.include: is missing"));
  EXPECT_THAT(MessageOf("data: {include: []}"), HasSubstr("data.include: must not be empty"));
  EXPECT_THAT(MessageOf("<<: {a: b}\n"), HasSubstr("<<: unknown key"));
}

TEST(ParseJob, ReportsAllMistakesByLineUpToTen) {
  const std::string three = MessageOf("train:\n  steps: 0\n  seed: x\nmodel: {layers: 0}\n");
  EXPECT_THAT(three, HasSubstr("job.yaml:2: train.steps"));
  EXPECT_THAT(three, HasSubstr("\njob.yaml:3: train.seed"));
  EXPECT_THAT(three, HasSubstr("\njob.yaml:4: model.layers"));
  std::string many(kSmall);
  for (int i = 0; i < 15; ++i) many += "zzz" + std::to_string(i) + ": 1\n";
  EXPECT_THAT(MessageOf(many), HasSubstr("zzz9"));
  EXPECT_THAT(MessageOf(many), Not(HasSubstr("zzz10")));
  EXPECT_THAT(MessageOf(many), HasSubstr("\nand 5 more"));
}

TEST(ParseJob, IsBoundedInSizeDepthAndCount) {
  EXPECT_THAT(MessageOf(std::string((1u << 20) + 1, ' ')), HasSubstr("larger than 1 MiB"));
  EXPECT_THAT(MessageOf("a: " + std::string(17, '[') + std::string(17, ']')),
              HasSubstr("nested deeper than 16 levels"));
  EXPECT_THAT(MessageOf(std::string(1u << 19, '[')), HasSubstr("job.yaml:1"));
  EXPECT_THAT(MessageOf(std::string(1u << 19, '{')), HasSubstr("job.yaml:1"));
  std::string many = "a: [";
  for (int i = 0; i < 20'001; ++i) many += "1,";
  EXPECT_THAT(MessageOf(many + "]"), HasSubstr("more than 20000 values"));
  // A billion laughs: refused at its first anchor.
  EXPECT_THAT(MessageOf("a: &a [x,x]\nb: &b [*a,*a]\nc: [*b,*b]\n"), HasSubstr("job.yaml:1: anch"));
}

TEST(ParseJob, ChecksTheStepPatternOfACommand) {
  const auto job = ParseJob("command: [train]\nstep_pattern: nanogpt\n", "job.yaml");
  ASSERT_TRUE(job.ok()) << job.status();
  EXPECT_EQ(job->step_pattern, "nanogpt");
  const auto none = ParseJob("command: [train]\nstep_pattern: 'step (\\d+)'\n", "job.yaml");
  EXPECT_THAT(
      std::string(none.status().message()),
      testing::HasSubstr("job.yaml:2: step_pattern: 'step (\\d+)' has no group named step"));
  const auto built_in = ParseJob("data: {include: [a]}\nstep_pattern: nanogpt\n", "job.yaml");
  EXPECT_THAT(std::string(built_in.status().message()),
              testing::HasSubstr("job.yaml:2: step_pattern: is for a 'command'"));
}

TEST(ParseJob, ReadsThePropertiesOfNodes) {
  const JobSpec job = MustParse(R"(
command: [train]
resources: {devices: H100, mixed_devices: true, device_memory: 40GiB, cpu: 2.5, memory: 64GiB}
scheduling: {selector: {pool: prod, zone: a}, tolerates: [reserved, noisy], project: vision}
)");
  EXPECT_EQ(job.scheduling.project, "vision");
  EXPECT_EQ(job.resources.devices, std::vector<std::string>{"H100"});
  EXPECT_TRUE(job.resources.mixed_devices);
  EXPECT_EQ(job.resources.device_memory, uint64_t{40} << 30);
  EXPECT_EQ(job.resources.cpu, 2.5);
  EXPECT_EQ(job.resources.memory, uint64_t{64} << 30);
  EXPECT_EQ(job.scheduling.selector,
            (std::map<std::string, std::string>{{"pool", "prod"}, {"zone", "a"}}));
  EXPECT_EQ(job.scheduling.tolerates, (std::vector<std::string>{"reserved", "noisy"}));
  EXPECT_EQ(MustParse("command: [train]\nresources: {devices: [A, B]}\n").resources.devices.size(),
            2u);
}

TEST(ParseJob, ReadsTheLimits) {
  const LimitSpec defaults = MustParse("command: [train]\n").limits;
  EXPECT_EQ(defaults.processes, std::nullopt);
  EXPECT_EQ(defaults.memory, std::nullopt);
  EXPECT_EQ(defaults.log_size, uint64_t{1} << 30);
  const JobSpec job =
      MustParse("command: [train]\nlimits: {processes: 512, memory: 8GiB, log_size: 64MiB}\n");
  EXPECT_EQ(job.limits.processes, 512u);
  EXPECT_EQ(job.limits.memory, uint64_t{8} << 30);
  EXPECT_EQ(job.limits.log_size, uint64_t{64} << 20);
  EXPECT_EQ(MustParse(ToYaml(job).c_str()), job);
  EXPECT_EQ(MustParse("command: [train]\nlimits: {memory: 0}\n").limits.memory, 0u) << "none";
}

TEST(ParseJob, ReadsTheRulesOfTheTopology) {
  const JobSpec plain = MustParse("command: [train]\nscheduling: {topology: leaf}\n");
  EXPECT_EQ(plain.scheduling.topology, (TopologySpec{"leaf", "", {}, false}));
  const JobSpec job = MustParse(R"(
command: [train]
resources: {nodes: 8, minimum_nodes: 4, maximum_nodes: 12, processes_per_node: 1}
scheduling:
  topology: {required: block, preferred: leaf, slice: {nodes: 4, level: leaf}}
  queue: lab
)");
  EXPECT_EQ(job.scheduling.topology, (TopologySpec{"block", "leaf", {4, "leaf"}, false}));
  EXPECT_EQ(job.scheduling.queue, "lab") << "a key after the map is of its section again";
  EXPECT_TRUE(MustParse("command: [train]\nscheduling: {topology: {rail_aligned: true}}\n")
                  .scheduling.topology.rail_aligned);
}

TEST(ParseJob, ReadsASpreadWithAndWithoutABound) {
  const auto spread = [](const std::string& rule) {
    return MustParse("command: [train]\nscheduling: {topology: {" + rule + "}, queue: lab}\n")
        .scheduling.topology;
  };
  EXPECT_EQ(spread("spread: leaf").spread, (SpreadSpec{"leaf", 0}));
  EXPECT_EQ(spread("required: block, spread: {level: leaf, at_most: 2}"),
            (TopologySpec{"block", "", {}, false, {"leaf", 2}}));
  EXPECT_EQ(spread("spread: {level: leaf}").spread, (SpreadSpec{"leaf", 0}));
}

TEST(ParseJob, RefusesATopologyThatMakesNoSense) {
  const struct {
    const char* text;
    const char* want;
  } kRows[] = {
      {"scheduling: {topology: [leaf]}", "scheduling.topology: must be a text, not a list"},
      {"scheduling: {topology: {require: leaf}}",
       "scheduling.topology.require: unknown key, did you mean 'required'"},
      {"scheduling: {topology: {required: leaf, preferred: leaf}}",
       "scheduling.topology.preferred: 'leaf' is required already"},
      {"scheduling: {topology: {slice: {nodes: 4}}}", "scheduling.topology.slice: needs nodes and"},
      {"scheduling: {topology: {slice: {level: leaf}}}", "scheduling.topology.slice: needs nodes"},
      {"scheduling: {topology: {slice: {nodes: 1, level: leaf}}}",
       "scheduling.topology.slice.nodes: 1 is out of range: 2 to 100,000"},
      {"scheduling: {topology: {slice: 4}}", "scheduling.topology.slice: must be a map of keys"},
      {"{resources: {nodes: 6}, scheduling: {topology: {slice: {nodes: 4, level: leaf}}}}",
       "scheduling.topology.slice.nodes: 4 does not divide the 6 of resources.nodes"},
      {"scheduling: {topology: {rail_aligned: 1}}",
       "scheduling.topology.rail_aligned: must be true"},
      {"scheduling: {topology: {rail_aligned: true, slice: {nodes: 2, level: leaf}}}",
       "scheduling.topology.rail_aligned: cannot be combined with slice"},
      {"scheduling: {topology: {spread: [leaf]}}",
       "scheduling.topology.spread: must be a text, not a list"},
      {"scheduling: {topology: {spread: {at_most: 2}}}",
       "scheduling.topology.spread: needs a level, such as leaf or {level: leaf, at_most: 2}"},
      {"scheduling: {topology: {spread: {level: leaf, at_most: 0}}}",
       "scheduling.topology.spread.at_most: 0 is out of range: 1 to 100,000"},
      {"scheduling: {topology: {spread: {level: leaf, most: 2}}}",
       "scheduling.topology.spread.most: unknown key"},
      {"scheduling: {topology: {spread: host}}",
       "scheduling.topology.spread: every node of a job is another host already"},
      {"scheduling: {topology: {required: leaf, spread: leaf}}",
       "scheduling.topology.spread: 'leaf' is the required level"},
      {"scheduling: {topology: {preferred: block, spread: leaf}}",
       "scheduling.topology.spread: cannot be combined with preferred"},
      {"scheduling: {topology: {spread: leaf, slice: {nodes: 2, level: leaf}}}",
       "scheduling.topology.spread: cannot be combined with slice"},
      {"scheduling: {topology: {spread: leaf, rail_aligned: true}}",
       "scheduling.topology.spread: cannot be combined with rail_aligned"},
      {"{resources: {processes_per_node: 9}, scheduling: {topology: {rail_aligned: true}}}",
       "scheduling.topology.rail_aligned: is for at most 8 devices of a node, not the 9"},
  };
  for (const auto& row : kRows) {
    const std::string text = row.text;
    const bool flow = text.starts_with("{");
    const auto job = ParseJob(
        flow ? "{command: [train],\n" + text.substr(1) : "command: [train]\n" + text + "\n",
        "job.yaml");
    EXPECT_THAT(std::string(job.status().message()),
                testing::StartsWith("job.yaml:2: " + std::string(row.want)))
        << row.text;
  }
}

TEST(ParseJob, ReadsTheShareOfADevice) {
  const JobSpec job = MustParse("command: [train]\nresources: {share: 0.125}\n");
  EXPECT_EQ(job.resources.share, 0.125);
  EXPECT_EQ(job.resources.processes_per_node, 1u) << "one worker has the share";
  EXPECT_EQ(MustParse("command: [train]\nresources: {share: 1, processes_per_node: 4}\n")
                .resources.processes_per_node,
            4u);
  const struct {
    const char* text;
    const char* want;
  } kRows[] = {
      {"{share: 0}", "resources.share: 0 is out of range: above 0, at most 1"},
      {"{share: 1.5}", "resources.share: 1.5 is out of range: above 0, at most 1"},
      {"{share: 0.3333}", "resources.share: has more than three decimals"},
      {"{share: 0.5, processes_per_node: 2}",
       "resources.share: is for one worker on each node, not the 2 of"},
      {"{share: half}", "resources.share: must be a number"},
  };
  for (const auto& row : kRows) {
    const auto refused =
        ParseJob("command: [train]\nresources: " + std::string(row.text) + "\n", "job.yaml");
    EXPECT_THAT(std::string(refused.status().message()),
                testing::StartsWith("job.yaml:2: " + std::string(row.want)))
        << row.text;
  }
}

TEST(ParseJob, RefusesPropertiesThatMakeNoSense) {
  const struct {
    const char* text;
    const char* want;
  } kRows[] = {
      {"resources: {devices: [A, B, A]}", "resources.devices: names 'A' twice"},
      {"resources: {devices: {A: 1}}", "resources.devices: must be a list"},
      {"resources: {devices: ''}", "resources.devices: must not be empty"},
      {"resources: {mixed_devices: maybe}", "resources.mixed_devices: must be true or false"},
      {"resources: {mixed_devices: 'true'}", "resources.mixed_devices: must be true or false"},
      {"resources: {memory: 64gib}", "resources.memory: must be a size such as 64MiB (auto, or"},
      {"resources: {memory: 1000}", "resources.memory: must be a multiple of 1MiB"},
      {"resources: {memory: auto}", "resources.memory: auto is for the built-in trainer"},
      {"resources: {memory: 2048TiB}", "resources.memory: 2048TiB is out of range"},
      {"resources: {device_memory: -1}", "resources.device_memory: must be a size"},
      {"limits: {processes: 0}", "limits.processes: 0 is out of range: auto, or 16 to"},
      {"limits: {log_size: 1KiB}", "limits.log_size: 1KiB is out of range: 1MiB to"},
      {"limits: {disk: 1GiB}", "limits.disk: unknown key"},
      {"numeric: {not_finite: ignore}",
       "numeric.not_finite: 'ignore' is not an action: expected warn, stop or rollback"},
      {"numeric: {spike: off}",
       "numeric.spike: 'off' is not an action: expected warn, stop, rollback or ignore"},
      {"numeric: {spike: \"roll\\nback\"}", "numeric.spike: 'roll\\x0aback' is not an action"},
      {"numeric: {spike: [stop]}", "numeric.spike: must be a text"},
      {"numeric: {nan: stop}", "numeric.nan: unknown key"},
      {"resources: {cpu: nan}", "resources.cpu: must be a number"},
      {"resources: {cpu: -1}", "resources.cpu: -1 is out of range"},
      {"scheduling: {selector: [pool]}", "scheduling.selector: must be a map"},
      {"scheduling: {selector: {pool: [a]}}", "scheduling.selector.pool: must be a text"},
      {"scheduling: {selector: {pool: ''}}", "scheduling.selector.pool: must not be empty"},
      {"scheduling: {tolerates: {a: b}}", "scheduling.tolerates: must be a list"},
      {"scheduling: {project: [a]}", "scheduling.project: must be a text"},
      {"scheduling: {project: -a}", "scheduling.project: '-a' is not a name: 1 to 63 letters"},
      {"scheduling: {project: a b}", "scheduling.project: 'a b' is not a name: 1 to 63 letters"},
  };
  for (const auto& row : kRows) {
    const auto job = ParseJob("command: [train]\n" + std::string(row.text) + "\n", "job.yaml");
    EXPECT_THAT(std::string(job.status().message()),
                testing::StartsWith("job.yaml:2: " + std::string(row.want)))
        << row.text;
  }
  std::string many = "command: [train]\nscheduling: {tolerates: [a";
  for (int i = 0; i < 16; ++i) many += ", b" + std::to_string(i);
  EXPECT_THAT(std::string(ParseJob(many + "]}\n", "job.yaml").status().message()),
              HasSubstr("has 17 entries: at most 16"));
}

TEST(CheckFaults, LooksAtFaultsAddedLater) {
  JobSpec job = MustParse(kSmall);
  job.faults = *ParseFaultPlan("kill worker 7 at step 300");
  EXPECT_TRUE(CheckFaults(job).ok());
  job.faults = *ParseFaultPlan("kill worker 7 at step 300; kill controller at step 301");
  EXPECT_THAT(CheckFaults(job).message(), HasSubstr("'kill controller at step 301' can never"));
}

TEST(JobText, IsReadBackToAnEqualJob) {
  JobSpec built_in;
  built_in.name = "x";
  built_in.data.include = {"/a/**", "- # : \" ' \\ \u00e9\n", "null", "~", "123"};
  built_in.data.held_out = 0.1 + 0.2;
  built_in.train.seed = UINT64_MAX;
  built_in.train.learning_rate = 5e-324;
  built_in.sample.prompt = "\x1b[0m \x7f \u2028 \xf0\x9f\x98\x80";
  built_in.resources.micro_batch = 2;
  built_in.snapshot.interval_steps = 12;
  built_in.resources.memory.reset();
  built_in.scheduling.topology.rail_aligned = true;
  built_in.faults = *ParseFaultPlan("stop worker 0 for 1500ms at step 12; kill agent 2 at step 3");
  JobSpec command;
  command.name = "y";
  command.command = {"sh", "-c", "echo $A; exit 3"};
  command.environment = {{"A", "1"}, {"null", "~"}, {"Y", "yes"}};
  command.working_directory = "/tmp/x y";
  command.resources.devices = {"H100", "- # null"};
  command.resources.mixed_devices = true;
  command.resources.device_memory = uint64_t{40} << 30;
  command.resources.cpu = 0.125;
  command.resources.memory = uint64_t{64} << 30;
  command.scheduling.selector = {{"pool", "prod"}, {"null", "~"}};
  command.scheduling.tolerates = {"reserved"};
  command.scheduling.project = "vision-2";
  command.scheduling.topology = {"block", "leaf", {2, "- null"}, false};
  command.resources.share = 0.375;
  command.resources.processes_per_node = 1;
  command.step_pattern = R"(step (?P<step>\d+): "loss" (?P<loss>\S+))";
  JobSpec spread = command;
  spread.scheduling.topology = {"block", "", {}, false, {"- null", 3}};
  JobSpec even = command;
  even.scheduling.topology = {"", "", {}, false, {"leaf", 0}};
  for (const JobSpec& job : {built_in, command, spread, even}) {
    for (const std::string& text : {ToYaml(job), ToJson(job)}) {
      const auto again = ParseJob(text, "again");
      ASSERT_TRUE(again.ok()) << again.status() << "\n" << text;
      EXPECT_EQ(*again, job) << text;
    }
  }
}

TEST(JobText, WritesYamlThatPeopleCanRead) {
  JobSpec job;
  job.name = "tiny";
  job.data.include = {"/usr/include/**/*.h"};
  const std::string yaml = ToYaml(job);
  EXPECT_THAT(yaml, HasSubstr("model:\n  kind: \"gpt\"\n  layers: 4\n"));
  EXPECT_THAT(yaml, HasSubstr("  learning_rate: 0.003\n"));
  EXPECT_THAT(yaml, HasSubstr("resources:\n  nodes: \"auto\"\n"));
  EXPECT_THAT(yaml, HasSubstr("inject: []\n"));
  EXPECT_THAT(yaml, Not(HasSubstr("command")));
}

}  // namespace
}  // namespace longhaul::spec

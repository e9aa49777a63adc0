#include "base/status.h"

#include <gtest/gtest.h>

#include <cerrno>
#include <memory>

#include "base/ids.h"

namespace longhaul {
namespace {

TEST(Status, IsOkWithoutAReason) {
  EXPECT_TRUE(Status().ok());
  EXPECT_EQ(ToString(Status()), "ok");
  EXPECT_EQ(Status().message(), "");
}

TEST(Status, KeepsCodeAndMessage) {
  const Status status = NotFound("no job named x");
  EXPECT_FALSE(status.ok());
  EXPECT_EQ(status.code(), Code::kNotFound);
  EXPECT_EQ(ToString(status), "not found: no job named x");
  EXPECT_EQ(status, Status(Code::kNotFound, "no job named x"));
  EXPECT_NE(status, Aborted("no job named x"));
}

TEST(Status, AddsContextInFront) {
  EXPECT_EQ(ToString(DataLoss("checksum differs").WithContext("manifest.json")),
            "data loss: manifest.json: checksum differs");
}

// The numbers of google.rpc.Code: they cross the wire.
TEST(Status, HasTheCanonicalNumbers) {
  const struct {
    Status status;
    int code;
    const char* words;
  } kRows[] = {
      {CancelledError("m"), 1, "cancelled"},
      {InvalidArgument("m"), 3, "invalid argument"},
      {DeadlineExceeded("m"), 4, "deadline exceeded"},
      {NotFound("m"), 5, "not found"},
      {AlreadyExists("m"), 6, "already exists"},
      {PermissionDenied("m"), 7, "permission denied"},
      {ResourceExhausted("m"), 8, "resource exhausted"},
      {FailedPrecondition("m"), 9, "failed precondition"},
      {Aborted("m"), 10, "aborted"},
      {OutOfRange("m"), 11, "out of range"},
      {Unimplemented("m"), 12, "unimplemented"},
      {InternalError("m"), 13, "internal"},
      {Unavailable("m"), 14, "unavailable"},
      {DataLoss("m"), 15, "data loss"},
      {Unauthenticated("m"), 16, "unauthenticated"},
  };
  for (const auto& row : kRows) {
    EXPECT_EQ(static_cast<int>(row.status.code()), row.code);
    EXPECT_EQ(ToString(row.status.code()), row.words);
  }
}

TEST(FromErrno, SaysWhatAndWhyInLowerCase) {
  const Status status = FromErrno(ENOENT, "cannot open /x");
  EXPECT_EQ(ToString(status), "not found: cannot open /x: no such file or directory");
}

TEST(FromErrno, PicksTheCodeThatACallerWouldActOn) {
  const struct {
    int number;
    Code want;
  } kRows[] = {
      {ESRCH, Code::kNotFound},
      {EADDRINUSE, Code::kAlreadyExists},
      {EROFS, Code::kPermissionDenied},
      {ENOSPC, Code::kResourceExhausted},
      {ENOTDIR, Code::kInvalidArgument},
      {ENOTEMPTY, Code::kFailedPrecondition},
      {ETIMEDOUT, Code::kDeadlineExceeded},
      {ECONNREFUSED, Code::kUnavailable},
      {EIO, Code::kDataLoss},
      {EXDEV, Code::kUnknown},
  };
  for (const auto& row : kRows)
    EXPECT_EQ(FromErrno(row.number, "x").code(), row.want) << row.number;
}

Result<int> Half(int number) {
  if (number % 2 != 0) return InvalidArgument(std::to_string(number) + " is odd");
  return number / 2;
}

Result<int> Quarter(int number) {
  ASSIGN_OR_RETURN(const int half, Half(number));
  return Half(half);
}

Status CheckEven(int number) {
  RETURN_IF_ERROR(Half(number).status());
  return Status();
}

TEST(Result, HoldsAValueOrAReason) {
  EXPECT_EQ(*Half(8), 4);
  EXPECT_EQ(Half(8).status(), Status());
  EXPECT_EQ(Half(7).status().message(), "7 is odd");
}

TEST(Result, MacrosHandTheReasonOn) {
  EXPECT_EQ(*Quarter(8), 2);
  EXPECT_EQ(Quarter(6).status().message(), "3 is odd");
  EXPECT_TRUE(CheckEven(2).ok());
  EXPECT_EQ(CheckEven(3).code(), Code::kInvalidArgument);
}

TEST(Result, MovesWhatCannotBeCopied) {
  Result<std::unique_ptr<int>> result = std::make_unique<int>(3);
  const std::unique_ptr<int> owner = *std::move(result);
  EXPECT_EQ(*owner, 3);
}

TEST(Result, AReferenceToATemporarysValueLives) {
  const auto make = [] { return Result<std::string>(std::string(100, 'x')); };
  const std::string& text = *make();
  EXPECT_EQ(text, std::string(100, 'x'));
}

TEST(ResultDeathTest, RefusesToGiveAValueItDoesNotHave) {
  EXPECT_DEATH(Half(7).value(), "7 is odd");
  EXPECT_DEATH(Result<int>{Status()}, "ok");
  EXPECT_DEATH(static_cast<void>(Status(Code::kOk, "x")), "an ok status has no message");
}

TEST(CheckDeathTest, NamesThePlaceTheConditionAndTheReason) {
  EXPECT_DEATH(CHECK(1 > 2) << "because", "status_test.cc:[0-9]+: check failed: 1 > 2 because");
}

TEST(Check, DoesNotEvaluateTheReasonWhenItHolds) {
  int evaluated = 0;
  CHECK(true) << ++evaluated;
  EXPECT_EQ(evaluated, 0);
}

TEST(TextId, ComparesAsItsText) {
  EXPECT_LT(JobId("a"), JobId("b"));
  EXPECT_EQ(NodeId("node-1"), NodeId("node-1"));
  EXPECT_TRUE(NodeId().empty());
}

}  // namespace
}  // namespace longhaul

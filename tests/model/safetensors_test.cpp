// The safetensors reader and writer: round trips, and one refusal for every rule of the format. Files are built from
// header text here; exchange with the Python package is test_safetensors.py's.
#include "model/safetensors.h"

#include "files/files.h"
#include "tests/refusal.h"

#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <stdexcept>
#include <system_error>

namespace safetensors_test {

namespace fs = std::filesystem;

std::string with_length(uint64_t length, const std::string& rest) {
  std::string bytes(8, '\0');
  std::memcpy(bytes.data(), &length, 8);
  return bytes + rest;
}

class SafetensorsTest : public testing::Test {
 protected:
  std::string refusal_of_bytes(const std::string& bytes) const {
    std::ofstream(file_, std::ios::binary) << bytes;
    const std::string message = refusal_of([&] { return model::read_safetensors(file_); });
    const std::string prefix = file_.string() + ": ";
    if (message.find('\n') != std::string::npos) return "has several lines: " + message;
    return message.starts_with(prefix) ? message.substr(prefix.size()) : message;  // else it does not name the file
  }

  std::string refusal(const std::string& header, const std::string& data = "") const {
    return refusal_of_bytes(with_length(header.size(), header + data));
  }

  // A header with the one tensor "t".
  std::string refusal_of_tensor(const std::string& dtype, const std::string& shape, const std::string& offsets,
                                const std::string& data = "") const {
    return refusal(R"({"t":{"dtype":)" + dtype + R"(,"shape":)" + shape + R"(,"data_offsets":)" + offsets + "}}", data);
  }

  const files::TemporaryFolder temporary_{"safetensors-test"};
  const fs::path folder_ = temporary_.path();
  const fs::path file_ = folder_ / "file.safetensors";
};

// Every type, to the bit: test_safetensors.py.
TEST_F(SafetensorsTest, TensorsComeBackAsTheyWere) {
  const at::Tensor numbers = at::arange(-6, 6, at::kFloat).view({3, 4}) / 7;
  const std::map<std::string, at::Tensor> tensors{{"transposed", numbers.t()},
                                                  {"needs gradient", numbers.clone().requires_grad_()},
                                                  {"bfloat16", numbers.to(at::kBFloat16)}};
  model::write_safetensors(file_, tensors, {{"format", "pt"}});
  const auto read = model::read_safetensors(file_);
  ASSERT_EQ(read.size(), tensors.size());
  for (const auto& [name, tensor] : tensors) {
    const at::Tensor& other = read.at(name);
    EXPECT_TRUE(other.scalar_type() == tensor.scalar_type() && other.equal(tensor)) << name;
    EXPECT_TRUE(other.is_contiguous() && !other.requires_grad()) << name;
  }
  EXPECT_EQ(std::distance(fs::directory_iterator(folder_), {}), 1) << "a temporary file was left behind";
}

TEST_F(SafetensorsTest, WritesExactlyTheFormat) {
  model::write_safetensors(file_, {{"b", at::scalar_tensor(1.0F)}, {"a", at::ones({2}, at::kByte)}}, {{"k", "v"}});
  const std::string header = R"({"__metadata__":{"k":"v"},"a":{"data_offsets":[4,6],"dtype":"U8","shape":[2]},)"
                             R"("b":{"data_offsets":[0,4],"dtype":"F32","shape":[]}})";
  const std::string padded = header + std::string((8 - header.size() % 8) % 8, ' ');
  EXPECT_EQ(files::read_file(file_), with_length(padded.size(), padded + std::string("\0\0\x80\x3f\1\1", 6)));
}

TEST_F(SafetensorsTest, RefusesToWriteWhatTheFormatCannotHold) {
  model::write_safetensors(file_, {{"t", at::ones({1})}});
  const std::string before = files::read_file(file_);
  EXPECT_THROW(model::write_safetensors(file_, {{"t", at::Tensor()}}), std::invalid_argument);
  EXPECT_THROW(model::write_safetensors(file_, {{"t", at::ones({1}, at::kComplexFloat)}}), std::invalid_argument);
  EXPECT_THROW(model::write_safetensors(file_, {{"t", at::ones({1}).to_sparse()}}), std::invalid_argument);
  EXPECT_THROW(model::write_safetensors(file_, {{"t", at::empty({1}, at::kMeta)}}), std::invalid_argument);
  EXPECT_THROW(model::write_safetensors(file_, {{"__metadata__", at::ones({1})}}), std::invalid_argument);
  EXPECT_THROW(model::write_safetensors(file_, {{"\xff", at::ones({1})}}), std::invalid_argument);
  EXPECT_EQ(files::read_file(file_), before);
  EXPECT_THROW(model::write_safetensors(folder_ / "absent" / "file", {}), std::system_error);
}

TEST_F(SafetensorsTest, AcceptsWhatTheReferenceAccepts) {
  EXPECT_EQ(refusal("{}"), "accepted");
  EXPECT_EQ(refusal(R"({"__metadata__":{"a":"b"}}    )"), "accepted");
  EXPECT_EQ(refusal_of_tensor(R"("F32")", "[2,0]", "[0,0]"), "accepted");
  EXPECT_EQ(refusal_of_tensor(R"("BOOL")", "[2]", "[0,2]", std::string("\0\1", 2)), "accepted");
}

TEST_F(SafetensorsTest, RefusesLengthsBeyondTheFile) {
  EXPECT_EQ(refusal_of_bytes(""), "must have at least 8 bytes, got 0");
  EXPECT_EQ(refusal_of_bytes("1234567"), "must have at least 8 bytes, got 7");
  const std::string header = "not a safetensors file: its header must be at most 2 bytes, got ";
  EXPECT_EQ(refusal_of_bytes(with_length(3, "{}")), header + "3");
  EXPECT_EQ(refusal_of_bytes(with_length(~uint64_t{0}, "{}")), header + "18446744073709551615");
  EXPECT_EQ(refusal_of_bytes(with_length(uint64_t{1} << 63, "{}")), header + "9223372036854775808");
  std::ofstream(file_, std::ios::binary) << with_length(100'000'001, "{");
  fs::resize_file(file_, 200'000'000);  // a hole, not written to the disk
  EXPECT_THROW((void)model::read_safetensors(file_), std::invalid_argument);
  EXPECT_THROW((void)model::read_safetensors(folder_), std::invalid_argument);
  EXPECT_THROW((void)model::read_safetensors(folder_ / "absent"), std::invalid_argument);
}

TEST_F(SafetensorsTest, RefusesHeadersThatAreNotOneJsonObject) {
  EXPECT_EQ(refusal(""), "the header is not valid JSON at byte 1 of 0");
  EXPECT_EQ(refusal("{"), "the header is not valid JSON at byte 2 of 1");
  EXPECT_EQ(refusal("{}x"), "the header is not valid JSON at byte 3 of 3");
  EXPECT_EQ(refusal("{\"\xff\":{}}"), "the header is not valid JSON at byte 3 of 8");
  const std::string object = "the header must be a JSON object, from its first byte";
  EXPECT_EQ(refusal("[]"), object);
  EXPECT_EQ(refusal(" {}"), object);
  EXPECT_EQ(refusal("1"), object);
  EXPECT_EQ(refusal(R"({"t":1e999})"), "the header has a number that does not fit; lengths are below 2^63");
  EXPECT_NE(refusal(std::string(100'000, '[')), "accepted");
}

TEST_F(SafetensorsTest, RefusesNamesThatComeTwice) {
  const std::string entry = R"({"dtype":"U8","shape":[0],"data_offsets":[0,0]})";
  EXPECT_EQ(refusal("{\"t\":" + entry + ",\"t\":" + entry + "}"), "the header has the name \"t\" twice");
  EXPECT_EQ(refusal(R"({"t":{"dtype":"U8","dtype":"F32","shape":[0],"data_offsets":[0,0]}})"),
            "the header has the name \"dtype\" twice");
  EXPECT_EQ(refusal(R"({"__metadata__":{"a":"b","a":"b"}})"), "the header has the name \"a\" twice");
  EXPECT_EQ(refusal("{\"t\":" + entry + ",\"u\":" + entry + "}"), "accepted");
}

TEST_F(SafetensorsTest, RefusesEntriesOfTheWrongTypes) {
  const std::string fields = "tensor \"t\": its entry must be an object with dtype, shape and data_offsets";
  EXPECT_EQ(refusal(R"({"t":[]})"), fields);
  EXPECT_EQ(refusal(R"({"t":{"dtype":"U8","shape":[0]}})"), fields);
  EXPECT_EQ(refusal_of_tensor("8", "[1]", "[0,1]", "x"), "tensor \"t\": dtype must be a string");
  EXPECT_EQ(refusal_of_tensor(R"("F8_E4M3")", "[1]", "[0,1]", "x"),
            "tensor \"t\": dtype must be one of F32, F64, F16, BF16, I64, I32, I16, U8, BOOL, got \"F8_E4M3\"");
  const std::string shape = "tensor \"t\": shape must hold whole numbers from 0 to 2^63 - 1";
  for (const std::string bad : {"[-1]", "[1.0]", "[\"1\"]", "[null]", "[true]", "[9223372036854775808]"}) {
    EXPECT_EQ(refusal_of_tensor(R"("U8")", bad, "[0,1]", "x"), shape) << bad;
  }
  EXPECT_EQ(refusal_of_tensor(R"("U8")", "[[1]]", "[0,1]", "x"), "the header is nested deeper than 3");
  const std::string array = "tensor \"t\": shape must be an array of at most 64 numbers";
  EXPECT_EQ(refusal_of_tensor(R"("U8")", "1", "[0,1]", "x"), array);
  EXPECT_EQ(refusal_of_tensor(R"("U8")", "{\"a\":1}", "[0,1]", "x"), array);
  std::string many = "[1";
  for (int i = 0; i < 64; ++i) many += ",1";
  EXPECT_EQ(refusal_of_tensor(R"("U8")", many + "]", "[0,1]", "x"), array);
  const std::string offsets = "tensor \"t\": data_offsets must be two whole numbers from 0 on";
  for (const std::string bad :
       {"[0]", "[0,1,2]", "[-1,0]", "[0,1.0]", "1", "{\"a\":0,\"b\":1}", "[0,18446744073709551616]"}) {
    EXPECT_EQ(refusal_of_tensor(R"("U8")", "[1]", bad, "x"), offsets) << bad;
  }
  EXPECT_EQ(refusal(R"({"__metadata__":{"a":1}})"), "__metadata__ must be an object of strings");
  EXPECT_EQ(refusal(R"({"__metadata__":["a"]})"), "__metadata__ must be an object of strings");
  EXPECT_EQ(refusal(R"({"__metadata__":null})"), "__metadata__ must be an object of strings");
}

TEST_F(SafetensorsTest, RefusesSizesThatDisagreeOrOverflow) {
  EXPECT_EQ(refusal_of_tensor(R"("F32")", "[1]", "[0,5]", "xxxxx"),
            "tensor \"t\": data_offsets must span the 4 bytes of its shape and dtype, got 0 to 5");
  EXPECT_EQ(refusal_of_tensor(R"("U8")", "[1]", "[1,0]", "x"),
            "tensor \"t\": data_offsets must span the 1 bytes of its shape and dtype, got 1 to 0");
  const std::string large = "tensor \"t\": its shape must take at most 2^63 - 1 bytes";
  EXPECT_EQ(refusal_of_tensor(R"("F32")", "[4611686018427387904,4]", "[0,0]"), large);  // 2^66 bytes, 0 modulo 2^64
  EXPECT_EQ(refusal_of_tensor(R"("F32")", "[4611686018427387904]", "[0,0]"), large);
  EXPECT_EQ(refusal_of_tensor(R"("U8")", "[0,4294967296,4294967296]", "[0,0]"), large);  // strides overflow
  EXPECT_EQ(refusal_of_tensor(R"("U8")", "[1099511627776]", "[0,1099511627776]"),
            "tensor \"t\": data_offsets must begin at 0 and end by 0, got 0 to 1099511627776");
}

TEST_F(SafetensorsTest, RefusesOverlapsHolesAndLeftovers) {
  const auto two = [&](const std::string& first, const std::string& second, const std::string& data) {
    return refusal(R"({"a":{"dtype":"U8","shape":[2],"data_offsets":)" + first +
                       R"(},"b":{"dtype":"U8","shape":[2],"data_offsets":)" + second + "}}",
                   data);
  };
  EXPECT_EQ(two("[0,2]", "[2,4]", "wxyz"), "accepted");
  EXPECT_EQ(two("[2,4]", "[0,2]", "wxyz"), "accepted");
  EXPECT_EQ(model::read_safetensors(file_).at("a")[0].item<int>(), 'y');
  EXPECT_EQ(two("[0,2]", "[1,3]", "xyz"), "tensor \"b\": data_offsets must begin at 2 and end by 3, got 1 to 3");
  EXPECT_EQ(two("[0,2]", "[0,2]", "xy"), "tensor \"b\": data_offsets must begin at 2 and end by 2, got 0 to 2");
  EXPECT_EQ(two("[0,2]", "[3,5]", "vwxyz"), "tensor \"b\": data_offsets must begin at 2 and end by 5, got 3 to 5");
  EXPECT_EQ(two("[1,3]", "[3,5]", "vwxyz"), "tensor \"a\": data_offsets must begin at 0 and end by 5, got 1 to 3");
  EXPECT_EQ(two("[0,2]", "[2,4]", "xyz"), "tensor \"b\": data_offsets must begin at 2 and end by 3, got 2 to 4");
  EXPECT_EQ(two("[0,2]", "[2,4]", "vwxyz"), "tensors must cover all 5 bytes of data, but cover 4");
  EXPECT_EQ(refusal("{}", "x"), "tensors must cover all 1 bytes of data, but cover 0");
}

TEST_F(SafetensorsTest, RefusesBoolsThatAreNeitherFalseNorTrue) {
  EXPECT_EQ(refusal_of_tensor(R"("BOOL")", "[2]", "[0,2]", "\1\2"), "tensor \"t\": the bytes of a BOOL must be 0 or 1");
}

}  // namespace safetensors_test

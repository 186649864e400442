import XCTest

@testable import Sample

final class Passing: XCTestCase {
    func testHalf() {
        XCTAssertEqual(half(4), 2)
    }
}

final class Failing: XCTestCase {
    func testHalf() {
        XCTAssertEqual(half(4), 3, "the sample fails on purpose")
    }
}

final class Crashing: XCTestCase {
    func testHalf() {
        XCTAssertEqual(half(3), 1)
    }
}

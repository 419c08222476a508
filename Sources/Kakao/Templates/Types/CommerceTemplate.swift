/// A product with its price.
public struct CommerceTemplate: Codable, Hashable, Sendable {
    /// The picture, the texts and the link.
    public var content: Content
    /// The price.
    public var commerce: Commerce
    /// The title of the default button, which opens the content's link. ``buttons`` replace it.
    public var buttonTitle: String?
    /// At most two.
    public var buttons: [Button]?

    /// Creates a product with its price.
    public init(content: Content, commerce: Commerce, buttonTitle: String? = nil, buttons: [Button]? = nil) {
        self.content = content
        self.commerce = commerce
        self.buttonTitle = buttonTitle
        self.buttons = buttons
    }

    enum CodingKeys: String, CodingKey, CaseIterable {
        case content, commerce, buttons
        case buttonTitle = "button_title"
    }
}

/// The price of a product.
public struct Commerce: Codable, Hashable, Sendable {
    /// The price without a discount.
    public var regularPrice: Int
    /// The price after the discount, without which no discount is shown.
    public var discountPrice: Int?
    /// The discount in percent, from 0 to 100. Excludes ``fixedDiscountPrice``.
    public var discountRate: Int?
    /// The discount as an amount. Excludes ``discountRate``.
    public var fixedDiscountPrice: Int?
    /// The name of the product.
    public var productName: String?
    /// The currency; `원` if it is absent.
    public var currencyUnit: String?
    /// Where the currency stands; after the price if it is absent.
    public var currencyUnitPosition: CurrencyUnitPosition?

    /// The side of the price on which the currency stands.
    public enum CurrencyUnitPosition: Int, Codable, Sendable {
        case afterPrice = 0
        case beforePrice = 1
    }

    /// Creates a price.
    public init(
        regularPrice: Int,
        discountPrice: Int? = nil,
        discountRate: Int? = nil,
        fixedDiscountPrice: Int? = nil,
        productName: String? = nil,
        currencyUnit: String? = nil,
        currencyUnitPosition: CurrencyUnitPosition? = nil
    ) {
        self.regularPrice = regularPrice
        self.discountPrice = discountPrice
        self.discountRate = discountRate
        self.fixedDiscountPrice = fixedDiscountPrice
        self.productName = productName
        self.currencyUnit = currencyUnit
        self.currencyUnitPosition = currencyUnitPosition
    }

    enum CodingKeys: String, CodingKey, CaseIterable {
        case regularPrice = "regular_price"
        case discountPrice = "discount_price"
        case discountRate = "discount_rate"
        case fixedDiscountPrice = "fixed_discount_price"
        case productName = "product_name"
        case currencyUnit = "currency_unit"
        case currencyUnitPosition = "currency_unit_position"
    }
}

require 'bigdecimal'

# Books of a small shop.
module Books
  class Overdrawn < StandardError; end

  # An account with its entries.
  class Account
    attr_reader :entries

    def initialize(owner)
      @owner = owner
      @entries = []
    end

    # Adds an amount, which may be negative.
    def post(amount, note: nil)
      raise Overdrawn, "#{@owner} has only #{balance}" if balance + amount < 0

      @entries << { amount: amount, note: note }
      self
    end

    def balance
      @entries.sum(BigDecimal(0)) { |entry| entry[:amount] }
    end

    # Opens an account with a first amount.
    def self.open(owner, amount)
      new(owner).post(amount)
    end
  end
end

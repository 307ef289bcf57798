# ruff: noqa: E501 -- lines of chats
"""What people tell one another in the made-up chats: stories in episodes, questions, and small talk (CC0).

A story is a text. ``name: a | b`` gives the values that a slot may have. ``@`` begins an episode; every episode of
a story is told on another day. ``T:`` is the one whose story it is, ``L:`` the one who listens; ``^tag`` at the end
of a line names the message, ``[…]`` before it is a photo's caption. ``{ago:2}`` is the weekday two days before,
``{in:9}`` the day nine days later. ``? category | question | answer | tags`` asks; in an answer ``{date:tag-2}`` is
the day two days before that message. ``~ title | tags`` is a phase of the story, of which the first question is told.
"""

STORIES = {
    "allotment": """
plot: behind the railway | next to the old brickworks | below the dam
first: broad beans | radishes | early potatoes
second: leeks | pumpkins | red cabbage
pest: slugs | pigeons | a very bold rabbit
@
T: I have news. After six years on the waiting list they gave me a plot {plot}. ^key
L: Six years! I had forgotten you were even waiting.
T: So had I. I signed the papers {ago:1} and got a rusty key. ^sign
L: What is on it?
T: Nettles up to my shoulders and half a greenhouse.
@
T: Every muscle hurts. We dug over the first four beds at the weekend. ^dig
L: We?
T: My aunt came along with her own spade. She does not trust mine.
L: And what goes in first?
T: {first}, because the neighbour says even I cannot kill those. ^first
@
T: Disaster. {pest} ate everything that had come up. ^pest
L: Oh no. All of it?
T: Two rows are left, and they look ashamed of themselves.
L: Put a net over them.
T: The net arrives on {in:3}. ^net
@
T: [a wicker basket full of vegetables on a doorstep] Look at this! My own harvest. ^photo
L: That looks like something out of a painting.
T: The {second} did best of all in the end. I gave half of it away. ^second
L: I notice that nothing reached me.
T: Come and fetch it then, before it runs away.
? 1 | How did {T}'s allotment develop? | {T} got a plot, dug it over, lost the first rows and harvested in the end | key dig pest photo
? 2 | When did {T} sign the papers for the allotment? | {date:sign-1} | sign
? 1 | Which vegetables did {T} grow? | {first} and {second} | first second
? 3 | Is {T} generous with the harvest? | Yes, half of it was given away | second
? 2 | What ate {T}'s young plants? | {pest} | pest
~ a plot of one's own | key sign
~ digging and sowing | dig first
~ eaten up | pest net
~ the harvest | photo second
""",
    "choir": """
voice: alto | tenor | bass
place: the fire station | an old cinema | the town hall cellar
piece: a Fauré requiem | some madrigals | a mass by Haydn
@
T: You will laugh. I went to a choir rehearsal {ago:2}. ^begin
L: You? You hum when you think nobody listens.
T: They put me with the {voice} section and nobody complained. ^voice
L: Where do you meet?
T: In {place}, which smells of wet coats. ^place
@
T: I cannot get my part into my head. We sing {piece} and I am lost by the second page. ^piece
L: Record it and listen on the tram.
T: I do. People move to other seats.
@
T: The conductor asked me to sing four bars alone. ^solo
L: In front of everybody?
T: In front of forty people. My knees were not mine. ^crowd
L: I am proud of you, whatever it sounded like.
@
T: The concert is on {in:12}, will you come? ^concert
L: I would not miss it. Should I bring flowers or tomatoes?
T: Flowers. Tickets are nine euros, and I keep one for you. ^ticket
@
T: Still awake. We had to repeat the last piece because they would not stop clapping! ^encore
L: I clapped until my hands hurt. You looked ten years younger up there.
T: My brother cried and says it was the dust. ^brother
? 1 | How did {T} come to sing in a concert? | {T} joined a choir, learnt the part, sang alone and gave a concert | begin piece solo concert encore
? 2 | When did {T} first go to the choir? | {date:begin-2} | begin
? 2 | Where does {T}'s choir rehearse? | {place} | place
? 2 | When is the concert? | {date:concert+12} | concert
? 1 | What does {T} sing, and in which section? | {piece}, {voice} | piece voice
? 3 | Does {T}'s family like the concert? | Yes, the brother cried | brother
~ the first rehearsal | begin voice place
~ learning | piece
~ four bars alone | solo crowd
~ before the concert | concert ticket
~ applause | encore brother
""",
    "kitchen": """
colour: dark green | mustard yellow | a tired sort of pink
cook: a camping stove | the microwave | a rice cooker
fault: the pipes are from 1931 | the wall is full of old newspapers | the floor slopes four centimetres
@
T: The landlord agreed. I may tear out the whole kitchen. ^agree
L: At last! That oven had a personality.
T: The builders come on {in:4}. ^builders
L: And what will you cook on meanwhile?
T: On {cook}, in the hall, like a student. ^cook
@
T: They found out that {fault}. ^fault
L: Is that expensive?
T: Eleven hundred euros more, and two weeks longer. ^cost
L: You can shower and eat at ours whenever you want.
@
T: I cannot see grey paint any more, so I chose {colour} for the walls. ^colour
L: Brave. What does your landlord say?
T: He says it is my funeral.
@
T: [a small kitchen with open shelves and a kettle] It is done! First tea in the new kitchen. ^done
L: It looks twice as big.
T: I only burnt one thing so far, and that was the manual. ^burnt
L: Invite me before the second thing.
? 1 | How did the work on {T}'s kitchen go? | The landlord agreed, a fault was found, the walls were painted and it was finished | agree fault colour done
? 2 | When do the builders come to {T}? | {date:builders+4} | builders
? 2 | How much more did {T}'s kitchen cost? | Eleven hundred euros | cost
? 2 | What colour are the walls of {T}'s kitchen? | {colour} | colour
? 3 | Is the house of {T} an old one? | Yes, {fault} | fault
~ leave to begin | agree builders cook
~ a surprise | fault cost
~ paint | colour
~ done | done burnt
""",
    "driving": """
car: a grey Skoda | a van that smells of dogs | a tiny red Fiat
teacher: Mrs Okafor | Mr Lindqvist | Mrs Baros
fail: a roundabout | parking on a hill | a tram that had right of way
@
T: I did it, I registered at the driving school. At my age! ^register
L: What changed your mind?
T: Three buses in a row that never came. ^why
@
T: First lesson {ago:1}. I drove {car} at eighteen kilometres an hour and felt like a pilot. ^lesson
L: Did anybody overtake you?
T: A jogger did. My teacher {teacher} only breathes in, never out. ^teacher
@
T: I failed the test. ^fail
L: I am sorry. What happened?
T: Well, {fail} happened. I would rather not talk about it. ^reason
L: Half of all people fail the first time. Ask anyone.
@
T: The second test is on {in:8}, at seven in the morning. ^second
L: Nobody is on the road at seven. That is good.
T: I practise with my cousin's car on the empty fairground. ^practice
@
T: [a driving licence on a café table] I passed!! ^passed
L: I knew it! Where will you drive first?
T: To the sea, with the windows down. You choose the music. ^sea
? 1 | How did {T} get a driving licence? | {T} registered, took lessons, failed, practised and passed | register lesson fail second passed
? 2 | When was {T}'s first driving lesson? | {date:lesson-1} | lesson
? 2 | Who teaches {T} to drive? | {teacher} | teacher
? 2 | When does {T} take the test again? | {date:second+8} | second
? 1 | Why did {T} register, and why did the test go wrong? | Buses never came; {fail} | why reason
? 3 | Where does {T} want to go by car? | To the sea | sea
~ registering | register why
~ the first lessons | lesson teacher
~ failing | fail reason
~ trying again | second practice
~ the licence | passed sea
""",
    "cat": """
cat: Mustard | Bishop | Anchovy
hide: behind the washing machine | inside the sofa | on top of the bookshelf
sick: swallowed a hair band | has bad teeth | limps on one paw
@
T: I was at the shelter {ago:3}, just to look. ^shelter
L: Nobody ever just looks.
T: There is a grey one with half an ear, seven years old. They call it {cat}. ^cat
L: So when does it move in?
T: On {in:2}. ^movein
@
T: I own an invisible animal. {cat} has been {hide} since yesterday. ^hide
L: Does it eat at all?
T: At night. I hear crunching and pretend to sleep. ^night
@
T: We were at the vet. The poor thing {sick}. ^vet
L: Is it serious?
T: Not very, but the bill was a hundred and thirty euros. ^bill
L: Love is expensive.
@
T: [a grey cat asleep on a keyboard] Somebody writes my reports now. ^keyboard
L: Better than yours, I am sure.
T: It purred for the first time on {ago:1}. I did not dare to move for an hour. ^purr
? 1 | How did {T}'s cat settle in? | It came from a shelter, hid, was taken to the vet and purred in the end | shelter hide vet keyboard purr
? 2 | When did {T} visit the shelter? | {date:shelter-3} | shelter
? 2 | What is {T}'s cat called? | {cat} | cat
? 2 | How much did the vet cost {T}? | A hundred and thirty euros | bill
? 3 | Is {T}'s cat still young? | No, it is seven years old | cat
? 1 | What photo did {T} send of the cat? | A grey cat asleep on a keyboard | keyboard
~ the shelter | shelter cat movein
~ invisible | hide night
~ at the vet | vet bill
~ at home | keyboard purr
""",
    "bicycle": """
find: in my uncle's barn | at a house clearance | beside the recycling containers
year: 1958 | 1964 | 1971
part: a saddle | a bottom bracket | a chain guard
from: Lyon | Gdańsk | Turin
@
T: Guess what was standing {find}. A racing bicycle from {year}, under a tarpaulin! ^find
L: Does it still have wheels?
T: Two, and both of them are oval.
L: Please don't tell me you took it home.
T: It stands in the corridor. ^corridor
@
T: I took the whole thing apart {ago:1}. There are ninety-three pieces on newspaper. ^apart
L: Have you numbered them?
T: I photographed them, which is nearly the same.
@
T: The only thing I cannot get is {part}. Nobody here has that thread. ^part
L: Try a forum for old bikes.
T: I did, and a man in {from} will post me one for twelve euros. ^forum
@
T: It rides! I went round the block at midnight so that nobody would see me fall. ^ride
L: And did you?
T: Only once, when I stopped. ^fall
L: Paint next?
T: Sky blue, as it was. I begin on {in:5}. ^paint
? 1 | How did {T} restore the old bicycle? | Found it, took it apart, ordered a part and rode it | find apart forum ride
? 2 | How old is {T}'s racing bicycle? | From {year} | find
? 2 | When did {T} take the bicycle apart? | {date:apart-1} | apart
? 1 | Which part was missing, and where does it come from? | {part}, from {from} | part forum
? 2 | When will {T} start to paint? | {date:paint+5} | paint
? 3 | Was {T}'s first ride perfect? | No, there was a fall | fall
~ found | find corridor
~ ninety-three pieces | apart
~ the missing part | part forum
~ the first ride | ride fall paint
""",
    "italian": """
town: Trieste | Lecce | Bologna
teacher: a retired opera prompter | a student of geology | a baker's daughter
mistake: ordered a grandmother instead of a peach | said I was a balcony | asked for the bill in Latin
@
T: My Italian course started {ago:2}. We are five people and one dictionary. ^course
L: Why Italian?
T: Because I promised my niece to speak with her in-laws at the christening. ^why
L: Who teaches you?
T: Oddly enough, {teacher}. ^teacher
@
T: I wrote my first letter in Italian, to nobody in particular. ^letter
L: What did it say?
T: That the weather is beautiful and that I have two umbrellas.
@
T: I had a whole conversation at the market! I {mistake}, but they understood. ^market
L: I would have paid to hear that.
T: The seller corrected me and gave me a lemon. ^lemon
@
T: The train to {town} is booked. I leave on {in:10}. ^train
L: How long does it take?
T: Fourteen hours with two changes. ^hours
L: Then you have time for the irregular verbs.
@
T: Back home. I made a little speech at the christening and nobody switched to English! ^speech
L: Not even out of pity?
T: My niece says the pity was very well hidden. ^niece
? 1 | How did {T} learn Italian? | {T} took a course, wrote a letter, talked at the market and gave a speech | course letter market speech
? 2 | When did {T}'s course begin? | {date:course-2} | course
? 2 | Who is {T}'s teacher of Italian? | {teacher} | teacher
? 2 | When does {T} leave for {town}? | {date:train+10} | train
? 3 | Does {T} have family in Italy? | Yes, the in-laws of a niece | why
? 1 | Where did {T} use the new language? | At the market and at a christening in {town} | market train speech
~ the course | course why teacher
~ a letter | letter
~ at the market | market lemon
~ the journey | train hours
~ the speech | speech niece
""",
    "recipes": """
relative: grandmother | great-aunt | grandfather
dish: plum dumplings | a lentil pie | stuffed onions
lost: the amounts | the last page | everything after "then carefully"
@
T: We cleared out the flat of my {relative} and I found a shoebox full of recipes. ^box
L: Handwritten?
T: On envelopes, tickets, even on a parking fine. ^fine
@
T: I try one every Sunday now. {ago:1} it was {dish}. ^dish
L: And?
T: It tasted like the old flat. I had to sit down. ^taste
L: That is the best review a recipe can get.
@
T: There is one that I cannot solve, because {lost} is missing. ^lost
L: Ask the family.
T: I wrote to all six cousins and got six answers. ^cousins
@
T: I have decided to make a small book of them, for all of us. ^book
L: With pictures?
T: My colleague Ruben draws them. He gets paid in cake. ^draws
@
T: The printer delivered the books {ago:2}! Forty copies, and they smell of ink. ^printed
L: May I buy one?
T: You get one as a present, you tasted all the failures. ^present
? 1 | How did {T}'s recipe book come about? | {T} found recipes, cooked them, asked the cousins and had a book printed | box dish cousins book printed
? 2 | When did {T} cook {dish}? | {date:dish-1} | dish
? 1 | What were the recipes written on? | Envelopes, tickets and a parking fine | fine
? 2 | Who draws the pictures for {T}? | Ruben | draws
? 2 | When were the books delivered? | {date:printed-2} | printed
? 3 | Does {T} have a large family? | Yes, there are six cousins | cousins
~ a shoebox | box fine
~ on Sundays | dish taste
~ a riddle | lost cousins
~ the idea of a book | book draws
~ in print | printed present
""",
    "neighbour": """
noise: plays the trombone | drills at dawn | practises tap dance
name: Mr Abel | Mrs Quist | Mr Ferro
thanks: a jar of quince jelly | two cinema tickets | a repaired radio
@
T: My new neighbour {noise}. Every single morning at six. ^noise
L: Have you rung the bell?
T: I am too tired to be polite. ^tired
@
T: I left a note on the door {ago:1}. It took me four drafts. ^note
L: Friendly or furious?
T: It began friendly.
L: And?
T: No answer so far, but today it only started at seven. ^seven
@
T: We met on the stairs at last. {name} works nights and thought the house was empty then. ^met
L: So it was all a misunderstanding.
T: Yes, and I feel like a monster. ^monster
@
T: {name} slipped on the ice, so I do the shopping now. ^shopping
L: From enemy to nurse in three weeks.
T: Only until the plaster comes off on {in:14}. ^plaster
@
T: There was a parcel at my door today, with {thanks}. ^thanks
L: That is lovely.
T: We have breakfast together on Saturdays now. I bring the rolls. ^breakfast
? 1 | How did {T} and the neighbour become friends? | There was noise, a note, a meeting, help with the shopping and a present | noise note met shopping thanks
? 2 | When did {T} write to the neighbour? | {date:note-1} | note
? 2 | What is the name of {T}'s neighbour? | {name} | met
? 2 | When does the plaster come off? | {date:plaster+14} | plaster
? 3 | Does {T} get up early by choice? | No, the neighbour is loud at six | noise
? 1 | What did {T} give and get? | Shopping and rolls; {thanks} | shopping breakfast thanks
~ noise | noise tired
~ a note | note seven
~ on the stairs | met monster
~ helping | shopping plaster
~ thanks | thanks breakfast
""",
    "stars": """
buy: four hundred and twenty | two hundred and sixty | three hundred and ten
see: the rings of Saturn | a double star | the moons of Jupiter
spot: the car park of the swimming pool | a field near the quarry | the roof of the school
@
T: I spent far too much money. I bought a telescope for {buy} euros. ^buy
L: To look at whom?
T: At nobody! At nebulae. ^nebulae
@
T: Clouds for nine nights in a row. I have only studied the instructions. ^clouds
L: What do they say?
T: Never look at the sun, in eleven languages.
@
T: I saw {see}! I nearly knocked everything over. ^saw
L: Where were you?
T: On {spot}, with gloves and a thermos flask. ^spot
L: You must have been frozen.
T: Minus seven. I did not notice until I tried to turn the key. ^frozen
@
T: The observatory lets amateurs in on {in:6}, and I put us both on the list. ^list
L: Is it very late?
T: It begins at eleven. You may sleep on my shoulder. ^eleven
@
T: They have asked me to explain the sky to a school class. ^class
L: You, who were late for every lesson?
T: The planets forgive me. ^planets
? 1 | How did {T} get into astronomy? | {T} bought a telescope, waited, saw {see} and now explains the sky to a class | buy clouds saw list class
? 2 | How much was {T}'s telescope? | {buy} euros | buy
? 2 | Where does {T} watch the sky? | {spot} | spot
? 2 | When is the visit to the observatory? | {date:list+6} | list
? 3 | Was it cold when {T} was outside at night? | Yes, minus seven | frozen
~ a telescope | buy nebulae
~ clouds | clouds
~ a first sight | saw spot frozen
~ the observatory | list eleven
~ a class | class planets
""",
    "lake": """
lake: the Orta lake | the reservoir | the Ammer lake
length: 2.4 kilometres | three kilometres | 1.8 kilometres
fear: pike | deep water | water plants
@
T: I want to swim across {lake} this year. There, I said it. ^plan
L: How far is that?
T: It is {length}, and I manage four lengths of the pool. ^length
L: So there is some room at the top.
@
T: I found a coach. She is seventy-one and faster than anybody. ^coach
L: What does she tell you?
T: To breathe out. Apparently I have been saving air since 1990. ^breathe
@
T: First time outside! Fourteen degrees. I screamed like a kettle. ^outside
L: What about your fear of {fear}? ^fear
T: It swam next to me the whole time, but I went on. ^goon
@
T: I have an ear infection and must stay dry until {in:7}. ^ear
L: Poor you. How will you train?
T: On the carpet. The downstairs people have asked what I am doing. ^carpet
@
T: [a hand holding a swimming cap in front of water] One hour and nine minutes. I did it! ^across
L: All the way? Without the boat?
T: The boat came along, but I only touched it to say goodbye. ^boat
? 1 | How did {T} prepare for swimming across the lake? | With a coach, outside in cold water, on the carpet while ill, and made it | plan coach outside ear across
? 2 | Which lake does {T} swim across? | {lake} | plan
? 2 | How long did {T} take? | One hour and nine minutes | across
? 2 | When may {T} swim again after the infection? | {date:ear+7} | ear
? 1 | What is {T} afraid of, and what does the coach say? | {fear}; to breathe out | fear breathe
? 3 | Is {T}'s coach a young woman? | No, she is seventy-one | coach
~ a plan | plan length
~ the coach | coach breathe
~ cold water | outside goon
~ ill | ear carpet
~ across | across boat
""",
    "library": """
job: a guide at the harbour museum | a proof-reader of maps | the archivist of a brewery
boss: Dr Weiss | Mrs Adeyemi | a man called Kip
gift: a rubber stamp | a globe | the last library card
@
T: They will close our branch of the library. They told us this morning. ^close
L: That cannot be true. It is always full!
T: Full of people who borrow nothing, they say. ^why
L: How long do you have?
T: The doors shut on {in:30}. ^shut
@
T: I have written eleven applications and got two refusals and nine silences. ^apply
L: It is early days.
T: I apply for things I cannot even pronounce. ^pronounce
@
T: Interview on {ago:1}! They look for {job}. ^interview
L: And how was it?
T: {boss} asked what I read as a child, and we forgot the time. ^boss
@
T: The last day. We carried out books until midnight, and they gave me {gift}. ^last
L: Were there speeches?
T: One, and it was all crying. ^crying
@
T: They want me!! I start on {in:5}. ^offer
L: I shall open something that pops.
T: It pays a little less, but I can walk there. ^pay
? 1 | How did {T} find a new job? | The library closed, {T} applied, had an interview and got an offer | close apply interview offer
? 2 | When does {T}'s library shut its doors? | {date:shut+30} | shut
? 2 | When was {T}'s interview? | {date:interview-1} | interview
? 2 | When does {T} start the new job? | {date:offer+5} | offer
? 1 | What will {T} work as, and for whom? | {job}, for {boss} | interview boss
? 3 | Does {T} earn more in the new job? | No, a little less | pay
~ the news | close why shut
~ applications | apply pronounce
~ the interview | interview boss
~ the last day | last crying
~ an offer | offer pay
""",
    "coffee": """
amount: seven | nine | six
instead: barley coffee | hot water with ginger | chicory
side: a headache like a marching band | a temper | the wish to sleep at noon
@
T: The doctor says I must give up coffee. All of it. ^doctor
L: How much do you drink?
T: About {amount} cups. The ones before breakfast do not count. ^amount
@
T: Day three without. I have {side}. ^side
L: I can tell from your spelling.
T: I bought {instead}, which tastes like a wet cupboard. ^instead
@
T: I slept eight hours {ago:1}. Eight! In one piece! ^slept
L: When did that last happen?
T: At school, I think, in geography. ^school
@
T: I had a relapse. One espresso, standing, with my back to the street. ^relapse
L: And did you enjoy it?
T: It was not worth it, my heart went like a sewing machine. ^heart
@
T: The doctor is happy, my blood pressure is a whole page shorter. ^pressure
L: So you may have coffee again?
T: One on Sundays. I look forward to it from Monday on. ^sunday
? 1 | How did {T} give up coffee? | On doctor's orders, with {side}, better sleep, a relapse and one cup on Sundays in the end | doctor side slept relapse pressure
? 2 | How many cups did {T} drink? | {amount} | amount
? 2 | When did {T} sleep eight hours? | {date:slept-1} | slept
? 1 | What does {T} drink now? | {instead}, and one coffee on Sundays | instead sunday
? 3 | Would {T} accept a coffee on a Tuesday? | No, only on Sundays | sunday
~ the doctor | doctor amount
~ the first days | side instead
~ sleep | slept school
~ a relapse | relapse heart
~ the result | pressure sunday
""",
    "flat": """
street: Poplar Street | Tannery Lane | the market square
floor: fourth | fifth | sixth
broken: the mirror | my one good chair | the box of plates
@
T: I am looking for a flat. Mine has been sold to somebody with a sports car. ^sold
L: When must you be out?
T: At the end of next month. ^out
@
T: I have seen eight flats. One of them had a bath in the kitchen. ^eight
L: Practical. You can wash the dishes with your feet.
T: There were fifty of us on the stairs. ^fifty
@
T: I got one! It is on {street}, on the {floor} floor. ^got
L: With a lift?
T: With thighs. That is why nobody else wanted it. ^thighs
L: When do you move?
T: On {in:9}, and I am counting on your back. ^move
@
T: Thank you for carrying! Only {broken} did not survive. ^broken
L: I am so sorry about that.
T: It had a good life. Look at the view instead. [roofs and a church tower in the evening sun] ^view
@
T: I can hear an owl from my bed. In the middle of town! ^owl
L: So you have arrived.
T: I think I have. The key no longer feels borrowed. ^arrived
? 1 | How did {T} come to the new flat? | The old one was sold, {T} saw many, got one, moved and settled in | sold eight got broken owl
? 2 | Where is {T}'s new flat? | On {street}, on the {floor} floor | got
? 2 | When does {T} move? | {date:move+9} | move
? 2 | What broke when {T} moved? | {broken} | broken
? 3 | Does {T}'s new house have a lift? | No | thighs
? 1 | What can {T} see and hear in the new flat? | Roofs, a church tower and an owl | view owl
~ sold | sold out
~ looking | eight fifty
~ found | got thighs move
~ moving | broken view
~ at home | owl arrived
""",
    "exhibition": """
subject: bus stops at night | other people's balconies | hands of market sellers
where: a dentist's waiting room | a former butcher's | the foyer of the tax office
sold: two | three | five
@
T: Somebody wants to show my photographs. In {where}! ^where
L: That is wonderful. Which ones?
T: The series of {subject}. ^series
@
T: I cannot choose. There are three hundred and there is room for twenty. ^choose
L: Spread them on the floor and see which you step around.
T: I did, and now I cannot reach the door. ^door
@
T: The frames cost more than my camera did. ^frames
L: Borrow some.
T: My sister has lent me twelve and wants them back without fingerprints. ^lent
@
T: The opening is on {in:5}. I have written a speech of two sentences. ^opening
L: I shall clap after each of them.
@
T: [people with glasses in front of framed pictures] {sold} of them have a red dot! ^sold
L: You are a professional now.
T: An old man stood before one for half an hour. He said it was his window. ^oldman
? 1 | How did {T}'s exhibition come about? | {T} was asked, chose pictures, had them framed, and opened it | where choose frames opening sold
? 2 | Where are {T}'s photographs shown? | {where} | where
? 2 | What are the photographs of? | {subject} | series
? 2 | When does the exhibition open? | {date:opening+5} | opening
? 3 | Does {T} have a sister or brother? | Yes, a sister | lent
? 2 | How many pictures did {T} sell? | {sold} | sold
~ an offer | where series
~ choosing | choose door
~ frames | frames lent
~ the opening | opening
~ red dots | sold oldman
""",
}

SMALL_TALK = (
    "A: Good morning! Has it rained at yours as well?|B: Since four. The gutter sings.",
    "A: Are you awake?|B: Define awake.|A: Able to type.|B: Then yes.",
    "A: What did you have for lunch?|B: The other half of yesterday's.|A: Same, with a tomato as decoration.",
    "A: My tram broke down again.|B: Which line?|A: The one I am always on.",
    "A: I watched that film you told me about.|B: And? Did you cry?|A: Only from the second minute on.",
    "A: The washing machine ate another sock.|B: It is building a family.",
    "A: How was work?|B: Long. Somebody microwaved fish.|A: There should be a law.",
    "A: I found your scarf in my bag.|B: So that is where it went! Keep it until we meet.",
    "A: It is getting dark so early.|B: Or so late, it depends on how you sleep.",
    "A: Do you remember the name of that café with the parrot?|B: No, but I remember the parrot.",
    "A: I have to go, the soup is boiling over.|B: Save the soup!",
    "A: Happy Friday!|B: It is Thursday.|A: Oh. Then happy nearly.",
    "A: I cannot find my glasses.|B: Are they on your head?|A: I refuse to answer that.",
    "A: My phone is at four percent, so I may vanish.|B: Vanish beautifully.",
    "A: Somebody is practising scales upstairs.|B: Is it any good?|A: It is thorough.",
    "A: Did you read the news today?|B: Only the weather. That was enough.",
    "A: Sleep well!|B: You too. Don't dream of spreadsheets.",
    "A: I bought a plant.|B: I give it three weeks.|A: It is made of plastic.|B: Four weeks.",
    "A: What are you doing at the weekend?|B: As little as the law allows.",
    "A: There is a wasp in my kitchen.|B: Now it is the wasp's kitchen.",
    "A: I am standing in a queue and do not know what for.|B: Stay! It might be cake.",
    "A: Your voice message was eleven minutes long.|B: I left out the boring parts.",
    "A: Can you recommend a book?|B: Something sad or something with maps?|A: Sad maps.",
    "A: I said hello to a stranger because I thought it was you.|B: Was the stranger nice?|A: Nicer than you at that hour.",
    "A: Thank you for yesterday, it did me good.|B: Me too. Same time next week?",
    "A: Guess who I saw at the bakery.|B: Not the geography teacher?|A: He still looks disappointed.",
    "A: Snow! Real snow!|B: Here it is only rain with ambitions.",
    "A: My back hurts.|B: From what?|A: From being a back.",
)
